import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";

export const serverScript = fileURLToPath(new URL("children/dev-server.mjs", import.meta.url));

/** A free TCP port. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}

/** The pid of the process that answers on the port; null: none does. */
export async function answeringPid(port: number, path = "/"): Promise<number | null> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(5_000) });
    return Number(await response.text());
  } catch {
    return null;
  }
}
