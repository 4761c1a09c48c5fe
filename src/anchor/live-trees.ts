import { isSameMachine } from "../store/machine.js";
import type { RunRecord } from "../store/run-record.js";
import type { ProcessEvidence } from "./host.js";
import { membersOf } from "./members.js";
import type { NativeObserver } from "./native-host.js";

export type LiveProcesses = ProcessEvidence["descendants"];

/** The processes that live in each of these open runs now, as far as they can be seen from here. */
export async function liveTrees(
  host: NativeObserver,
  records: readonly RunRecord[],
  options?: { readonly ports: boolean },
): Promise<ReadonlyMap<string, LiveProcesses>> {
  const here = records.flatMap((record) =>
    record.anchor !== null && isSameMachine(record, host.machine) ? [{ record, anchor: record.anchor }] : [],
  );
  const anchors = here.map(({ anchor }) => anchor);
  const evidence = await host.inspect(anchors, options);
  return new Map(
    here.map(({ record }, at) => {
      const found = evidence[at];
      return [record.runId, found?.matches === true ? membersOf(record, records, found.descendants) : []];
    }),
  );
}
