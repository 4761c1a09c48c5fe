import { defaults } from "../../defaults.js";
import { GatewayUnreachable } from "../../errors.js";
import type { GatewayClient } from "../../api/client.js";
import { notice } from "../print/stderr.js";
import type { GatewayConnection } from "../client/connect.js";
import { waitForNextGateway } from "../client/reconnect.js";
import { hasErrorCode } from "../gateway/spawn-failed.js";

/**
 * Ask until a gateway has answered. One that was asked may be gone before it does, and nobody knows how far it came:
 * what is asked must be the same however often it is.
 */
export async function retryUntilAnswered<Answer>(
  connection: GatewayConnection,
  ask: (client: GatewayClient) => Promise<Answer>,
): Promise<{ readonly answer: Answer; readonly connection: GatewayConnection }> {
  let now = connection;
  for (;;)
    try {
      return { answer: await ask(now.client), connection: now };
    } catch (error) {
      if (!(error instanceof GatewayUnreachable) && !hasErrorCode(error, "SUPERVISOR_CLOSED")) throw error;
      const next = await waitForNextGateway(now.home, {
        onPurpose: hasErrorCode(error, "SUPERVISOR_CLOSED"),
        forMs: defaults.ownerLossMs,
        say: (message) => notice(message, "dim"),
        what: "the agent",
      });
      if (next === null) throw error;
      now = next;
    }
}
