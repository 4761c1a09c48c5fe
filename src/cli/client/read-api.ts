import type { GatewayClient } from "../../api/client.js";
import type { AcpQueryVerb } from "../../queries/acp.js";
import type { TaskQueryVerb } from "../../queries/tasks.js";

/** The operations that change nothing. */
export type ReadApi = Pick<
  GatewayClient,
  | "listRuns"
  | "poll"
  | "log"
  | "screen"
  | "listSessions"
  | "sessionStatus"
  | "sessionHistory"
  | "sessionInbox"
  | AcpQueryVerb
  | TaskQueryVerb
  /** Without `apply`. */
  | "maintainTasks"
>;

export interface ReadClient extends AsyncDisposable {
  readonly client: ReadApi;
}
