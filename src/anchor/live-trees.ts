import type { RunRecord } from "../store/run-record.js";
import type { ProcessEvidence } from "./host.js";
import type { NativeObserver } from "./native-host.js";

export type LiveProcesses = ProcessEvidence["descendants"];

/** The processes that live in each of these runs now, as far as they can be seen from here. */
export async function liveTrees(
  host: NativeObserver,
  records: readonly RunRecord[],
): Promise<ReadonlyMap<string, LiveProcesses>> {
  const { bootId, pidNamespace } = host.machine;
  const here = records.flatMap(({ runId, anchor, ...record }) =>
    anchor !== null && record.bootId === bootId && record.pidNamespace === pidNamespace
      ? [{ runId, anchor }]
      : [],
  );
  const evidence = await host.inspect(here.map(({ anchor }) => anchor));
  return new Map(
    here.map(({ runId }, at) => {
      const found = evidence[at];
      return [runId, found?.matches === true ? found.descendants : []];
    }),
  );
}
