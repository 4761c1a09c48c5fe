import { NotOurs } from "../../errors.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import type { ReadStore } from "../../store/store.js";
import type { KnownHosts } from "../client/known-hosts.js";
import { toJson } from "../json.js";
import { paletteFor } from "../print/palette.js";
import { print } from "../print/stdout.js";
import { runStatusText } from "../print/run-status.js";
import { runOwnerJson } from "./run-facts.js";

interface RecordedProcess {
  readonly record: RunRecord;
  readonly role: "leader" | "anchor";
}

/** From the records alone: whoever has that number here is somebody else, and is not looked at. */
export async function showRecordedOwner(
  store: Pick<ReadStore, "listRuns">,
  hosts: KnownHosts,
  hostIds: readonly string[],
  pid: number,
  json: boolean,
): Promise<number> {
  const open = await store.listRuns({ states: OPEN_RUN_STATES, hostIds });
  // Of several boots or containers of a host, each may have one of this number.
  const found = open.flatMap((record): RecordedProcess[] => {
    if (record.root?.pid === pid) return [{ record, role: "leader" }];
    return record.anchor?.pid === pid ? [{ record, role: "anchor" }] : [];
  });
  if (found.length === 0)
    throw new NotOurs(
      pid,
      `no open run of ${hostIds.map((hostId) => hosts.displayName(hostId)).join(", ")} has it on record as its first process or anchor; who else runs there can be seen only there`,
    );
  if (json) print(toJson(found.map(recordedOwnerJson(hosts, pid)), 2));
  else print(`${found.flatMap(recordedOwnerLines(hosts, pid)).join("\n")}\n`);
  return 0;
}

function recordedOwnerJson(hosts: KnownHosts, pid: number): (recorded: RecordedProcess) => object {
  return ({ record, role }) => ({
    pid,
    hostId: record.hostId,
    hostName: hosts.nameOf(record.hostId),
    role,
    verified: false,
    evidence: [],
    ...runOwnerJson(record),
    gateway: { instanceId: record.ownerInstanceId, alive: null },
  });
}

const RECORDED_ROLES = { leader: "first process", anchor: "anchor" } as const;

function recordedOwnerLines(hosts: KnownHosts, pid: number): (recorded: RecordedProcess) => string[] {
  const { bold } = paletteFor(1);
  return ({ record, role }) => [
    `${bold(String(pid))} on ${hosts.displayName(record.hostId)} is recorded as the ${RECORDED_ROLES[role]} of ${bold(record.runId)}, not verified here`,
    `  run       ${record.runId} (${runStatusText(record)}) ${sanitizeLine(record.command)}`,
    `  gateway   ${record.ownerInstanceId}, epoch ${record.leaseEpoch}`,
  ];
}
