import type { Supervisor } from "../../../src/supervisor/api.js";

export function stdinAccepted(
  supervisor: Pick<Supervisor, "home" | "instanceId">,
  runId: string,
): Promise<number>;
