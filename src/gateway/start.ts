import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defaults } from "../defaults.js";
import { GatewayUnreachable } from "../errors.js";
import type { AnswerOf } from "./contract/contract.js";
import { createClient, type GatewayClient } from "./client.js";
import { gatewaySocket } from "./server/listen.js";
import { readOperatorToken } from "./server/requester.js";

const MAIN = fileURLToPath(new URL("../cli/main.js", import.meta.url));

/** Variables that mark a run: a gateway is no process of the run it happens to be started from. */
const OF_A_RUN = /^HOLDFAST_(LEASE_ID|RUN_ID|SESSION_KEY|GATEWAY_INSTANCE_ID|TOKEN)$/;

/** A gateway in the background, ready to be asked. Rejects with what its log says when it does not come up. */
export async function startGateway(home: string, main = MAIN): Promise<AnswerOf<"status">> {
  const errors = `${home}/gateway.err`;
  const output = openSync(errors, "w", 0o600);
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !OF_A_RUN.test(name)));
  const child = spawn(process.execPath, [main, "gateway", "run", "--quiet"], {
    detached: true,
    stdio: ["ignore", "ignore", output],
    cwd: "/",
    env: { ...env, HOLDFAST_HOME: home },
  });
  closeSync(output);
  let ended: string | null = null;
  child.once("error", (error) => (ended = error.message));
  child.once("exit", (code, signal) => (ended ??= `it ended with ${signal ?? `status ${code ?? "?"}`}`));
  child.unref();
  const until = performance.now() + defaults.gatewayReadyMs;
  for (;;) {
    const found = await reach(home);
    if (found !== null) return found.status;
    if (ended !== null || performance.now() > until) {
      const said = readFileSync(errors, "utf8")
        .trim()
        .replace(/^holdfast: /, "");
      throw new GatewayUnreachable(`the gateway did not start: ${said || ended || "it does not answer"}`);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

const LOOK_MS = 20;

export interface Reached {
  readonly client: GatewayClient;
  readonly status: AnswerOf<"status">;
}

/** The gateway of a state directory, if one answers. Starts nothing. */
export async function reach(home: string, token: string | null = null): Promise<Reached | null> {
  const key = token ?? (await readOperatorToken(home));
  if (key === null) return null;
  const client = createClient({ socketPath: gatewaySocket(home), token: key });
  try {
    return { client, status: await client.status() };
  } catch (error) {
    if (error instanceof GatewayUnreachable) return null;
    throw error;
  }
}
