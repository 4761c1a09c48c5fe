import { defaults } from "../../defaults.js";
import { GatewayUnreachable } from "../../errors.js";
import type { GatewayClient } from "../../gateway/client.js";
import { say } from "../complain.js";
import type { Connection } from "../gateway/connect.js";
import { gatewayBack } from "../gateway/gateway-back.js";
import { isCode } from "../gateway/spawn-failed.js";

/**
 * Ask until a gateway has answered. One that was asked may be gone before it does, and nobody knows how far it came:
 * what is asked must be the same however often it is.
 */
export async function untilAnswered<Answer>(
  connection: Connection,
  ask: (client: GatewayClient) => Promise<Answer>,
): Promise<{ readonly answer: Answer; readonly connection: Connection }> {
  let now = connection;
  for (;;)
    try {
      return { answer: await ask(now.client), connection: now };
    } catch (error) {
      if (!(error instanceof GatewayUnreachable) && !isCode(error, "SUPERVISOR_CLOSED")) throw error;
      const next = await gatewayBack(now.home, {
        onPurpose: isCode(error, "SUPERVISOR_CLOSED"),
        forMs: defaults.ownerLossMs,
        say: (message) => say(message, "dim"),
        what: "the agent",
      });
      if (next === null) throw error;
      now = next;
    }
}
