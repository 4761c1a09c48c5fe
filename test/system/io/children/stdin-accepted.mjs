import { join } from "node:path";
import { openNativeHost } from "../../../../dist/anchor/native-host.js";
import { readMachineIdentity } from "../../../../dist/home/machine-identity.js";

/** The input offset that the anchor of a run has accepted. A `Run` does not expose it. */
export async function stdinAccepted({ home, instanceId }, runId) {
  const host = await openNativeHost({
    home,
    instanceId,
    instanceDir: join(home, "instances", instanceId),
    incarnation: "observer",
    machine: await readMachineIdentity(home),
  });
  try {
    const observer = await host.attach({ instanceId, runId }, 0);
    if (observer === null) throw new Error(`no anchor answers for ${runId}`);
    return observer.welcome.stdinAccepted;
  } finally {
    await host[Symbol.asyncDispose]();
  }
}
