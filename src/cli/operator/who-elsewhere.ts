import { NotOurs } from "../../errors.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { OPEN_STATES, type RunRecord } from "../../store/run-record.js";
import type { ReadStore } from "../../store/store.js";
import type { Hosts } from "../hosts/hosts.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { print } from "../runs/print.js";
import { statusOf } from "../runs/status.js";
import { runFacts } from "./run-facts.js";

interface Recorded {
  readonly record: RunRecord;
  readonly role: "leader" | "anchor";
}

/** From the records alone: whoever has that number here is somebody else, and is not looked at. */
export async function whoElsewhere(
  store: Pick<ReadStore, "listRuns">,
  hosts: Hosts,
  hostIds: readonly string[],
  pid: number,
  json: boolean,
): Promise<number> {
  const open = await store.listRuns({ states: OPEN_STATES, hostIds });
  // Of several boots or containers of a host, each may have one of this number.
  const found = open.flatMap((record): Recorded[] => {
    if (record.root?.pid === pid) return [{ record, role: "leader" }];
    return record.anchor?.pid === pid ? [{ record, role: "anchor" }] : [];
  });
  if (found.length === 0)
    throw new NotOurs(
      pid,
      `no open run of ${hostIds.map((hostId) => hosts.shown(hostId)).join(", ")} has it on record as its first process or anchor; who else runs there can be seen only there`,
    );
  if (json) print(toJson(found.map(facts(hosts, pid)), 2));
  else print(`${found.flatMap(describe(hosts, pid)).join("\n")}\n`);
  return 0;
}

function facts(hosts: Hosts, pid: number): (recorded: Recorded) => object {
  return ({ record, role }) => ({
    pid,
    hostId: record.hostId,
    hostName: hosts.nameOf(record.hostId),
    role,
    verified: false,
    evidence: [],
    ...runFacts(record),
    gateway: { instanceId: record.ownerInstanceId, alive: null },
  });
}

const ROLES = { leader: "first process", anchor: "anchor" } as const;

function describe(hosts: Hosts, pid: number): (recorded: Recorded) => string[] {
  const { bold } = paletteFor(1);
  return ({ record, role }) => [
    `${bold(String(pid))} on ${hosts.shown(record.hostId)} is recorded as the ${ROLES[role]} of ${bold(record.runId)}, not verified here`,
    `  run       ${record.runId} (${statusOf(record)}) ${sanitizeLine(record.command)}`,
    `  gateway   ${record.ownerInstanceId}, epoch ${record.leaseEpoch}`,
  ];
}
