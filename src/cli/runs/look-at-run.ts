import type { MachineIdentity, ProcessEvidence } from "../../anchor/host.js";
import { inspect } from "../../anchor/inspect.js";
import { membersOf } from "../../anchor/members.js";
import { isComparable } from "../../anchor/seen.js";
import { isSameMachine } from "../../store/machine.js";
import type { ProcessIdentity, RunRecord } from "../../store/run-record.js";
import type { Look } from "./describe.js";

/** What lives of a run, without that of other runs its anchor serves; `open`: those that might be such. */
export async function lookAtRun(
  record: RunRecord,
  here: MachineIdentity,
  open: readonly RunRecord[],
): Promise<Look> {
  const look = await lookAt(record, here);
  if (look.anchor === null) return look;
  const descendants = membersOf(record, open, look.anchor.descendants);
  return { ...look, anchor: { ...look.anchor, descendants } };
}

/** Asks the anchor binary, which is the only code that looks at processes; changes nothing. */
async function lookAt(record: RunRecord, here: MachineIdentity): Promise<Look> {
  const nobody = (why: string): Look => ({ anchor: null, root: null, why });
  if (record.state === "exited") return nobody("it has ended");
  if (record.imported !== null)
    return nobody(
      "it was imported; `holdfast runs cleanup --run … --dry-run` compares it with what is running",
    );
  if (!isSameMachine(record, here))
    return nobody("it lives on another machine, boot or in another pid namespace");
  if (record.anchor !== null && !isComparable(record.anchor, record, here))
    return nobody(
      `it was started in another time namespace (${record.timeNamespace ?? "not recorded"}), and this kernel has no unique ids to tell its processes from others`,
    );
  const wanted = [record.anchor, record.root].filter((identity) => identity !== null);
  try {
    const evidence = await inspect(record.anchorPath, wanted, { ports: record.service !== null });
    const of = (identity: ProcessIdentity | null): ProcessEvidence | null =>
      identity === null ? null : (evidence[wanted.indexOf(identity)] ?? null);
    return { anchor: of(record.anchor), root: of(record.root), why: null };
  } catch (error) {
    return nobody(error instanceof Error ? error.message : String(error));
  }
}
