import type { ProcessEvidence } from "../../anchor/host.js";
import { NotOurs } from "../../errors.js";
import { sanitizeLine } from "../../output/sanitize.js";
import type { ProcessIdentity, RunRecord } from "../../store/run-record.js";
import { openStoreForReading } from "../../store/open.js";
import { cgroupOf } from "../../supervisor/aftermath.js";
import { paletteFor } from "../palette.js";
import { print } from "../runs/print.js";
import { statusOf } from "../runs/status.js";
import { openObservatory } from "./observer.js";

interface Belonging {
  readonly record: RunRecord;
  readonly role: "anchor" | "leader" | "member" | "claims";
  readonly evidence: readonly string[];
}

/** Which run a process belongs to, who owns that, and what proves it. */
export async function who(pid: number, json: boolean): Promise<number> {
  await using observatory = await openObservatory();
  if (observatory === null) throw new NotOurs(pid, "nothing was ever run here");
  const { host, directory } = observatory;
  const [live] = await host.inspect([pid]);
  if (live === undefined || !live.alive) throw new NotOurs(pid, "there is no such process");
  await using store = await openStoreForReading(directory.storePath);
  const records = (await store?.listRuns({ states: ["starting", "running", "exiting"] })) ?? [];
  const here = records.filter(
    ({ bootId, pidNamespace }) =>
      bootId === host.machine.bootId && pidNamespace === host.machine.pidNamespace,
  );
  const belonging = await findBelonging(live, here, (paths) => host.inspectBoundaries(paths));
  if (belonging === null) throw new NotOurs(pid, reasonFor(live, records.length));
  const instances = await host.instances();
  const owner = instances.find(({ instanceId }) => instanceId === belonging.record.ownerInstanceId);
  const gateway = {
    instanceId: belonging.record.ownerInstanceId,
    alive: owner === undefined ? null : owner.alive,
  };
  if (json) print(`${JSON.stringify({ pid, ...facts(belonging), gateway }, null, 2)}\n`);
  else print(`${describe(live, belonging, gateway).join("\n")}\n`);
  return 0;
}

/** Identity, ancestry or cgroup prove it. A marker in its environment only claims it: anybody may set one. */
export async function findBelonging(
  live: ProcessEvidence,
  records: readonly RunRecord[],
  inspectBoundaries: (wanted: readonly { path: string; inode: string }[]) => Promise<readonly string[]>,
): Promise<Belonging | null> {
  for (const record of records) {
    if (isSame(record.anchor, live.identity))
      return {
        record,
        role: "anchor",
        evidence: [`it is the recorded anchor: ${identityText(live.identity)}`],
      };
    if (isSame(record.root, live.identity))
      return {
        record,
        role: "leader",
        evidence: [
          `it is the recorded first process: ${identityText(live.identity)}`,
          ...markerFacts(live, record),
        ],
      };
  }
  for (const record of records) {
    const evidence = await membership(live, record, inspectBoundaries);
    if (evidence.length > 0)
      return { record, role: "member", evidence: [...evidence, ...markerFacts(live, record)] };
  }
  const claimed = records.find(({ runId }) => runId === live.runId);
  if (claimed === undefined) return null;
  const evidence = [`HOLDFAST_RUN_ID in its environment says so; neither ancestry nor cgroup does`];
  return { record: claimed, role: "claims", evidence };
}

async function membership(
  live: ProcessEvidence,
  record: RunRecord,
  inspectBoundaries: Parameters<typeof findBelonging>[2],
): Promise<string[]> {
  const evidence: string[] = [];
  const cgroup = cgroupOf(record);
  if (cgroup !== null && live.cgroup !== null && isInside(live.cgroup, cgroup.path)) {
    const [state] = await inspectBoundaries([cgroup]);
    if (state === "populated" || state === "empty")
      evidence.push(`it is in the run's cgroup ${cgroup.path} (inode ${cgroup.inode})`);
  }
  const parent = live.ancestors.find((each) => isSame(record.root, each));
  const anchor = live.ancestors.find((each) => isSame(record.anchor, each));
  if (parent !== undefined) evidence.push(`it descends from the run's first process ${identityText(parent)}`);
  else if (anchor !== undefined) evidence.push(`it descends from the run's anchor ${identityText(anchor)}`);
  return evidence;
}

function isInside(found: string, recorded: string): boolean {
  return found === recorded || found.startsWith(`${recorded}/`);
}

function markerFacts(live: ProcessEvidence, { leaseId }: RunRecord): string[] {
  return leaseId !== "" && live.leaseId === leaseId ? [`it carries the run's marker ${leaseId}`] : [];
}

function isSame(recorded: ProcessIdentity | null, live: ProcessIdentity): boolean {
  return (
    recorded !== null &&
    recorded.pid === live.pid &&
    recorded.startTime === live.startTime &&
    recorded.uniqueId === live.uniqueId
  );
}

function identityText({ pid, startTime, uniqueId }: ProcessIdentity): string {
  return `pid ${pid}, start ${startTime}${uniqueId === null ? "" : `, id ${uniqueId}`}`;
}

function reasonFor(live: ProcessEvidence, runs: number): string {
  if (live.runId !== null) return `it carries the marker of ${live.runId}, which is not alive here`;
  return runs === 0 ? "nothing is running here" : "neither its ancestry nor its cgroup leads to a run";
}

function facts({ record, role, evidence }: Belonging): object {
  const { runId, state, sessionKey, agentId, backendId, labels, command, tier, leaseEpoch } = record;
  return {
    role,
    verified: role !== "claims",
    evidence,
    runId,
    state,
    sessionKey,
    agentId,
    backendId,
    labels,
    command,
    tier,
    leaseEpoch,
  };
}

const ROLES = {
  anchor: "the anchor of",
  leader: "the first process of",
  member: "a process of",
  claims: "claims to be a process of",
} as const;

function describe(
  live: ProcessEvidence,
  { record, role, evidence }: Belonging,
  gateway: { readonly instanceId: string; readonly alive: boolean | null },
): string[] {
  const { bold } = paletteFor(1);
  const labels = Object.entries(record.labels).map(([key, value]) => `${key}=${value}`);
  const alive = gateway.alive === null ? "not of this state directory" : gateway.alive ? "alive" : "gone";
  const fields: [string, string | null][] = [
    ["command", sanitizeLine(live.argv.join(" ") || live.command)],
    ["run", `${record.runId} (${statusOf(record)}) ${sanitizeLine(record.command)}`],
    ["session", record.sessionKey],
    ["agent", record.agentId],
    ["labels", labels.length === 0 ? null : labels.join(" ")],
    ["gateway", `${gateway.instanceId} (${alive}), epoch ${record.leaseEpoch}`],
    ["tier", record.tier],
    ...evidence.map((fact): [string, string] => ["evidence", fact]),
  ];
  return [
    `${bold(String(live.identity.pid))} ${role === "claims" ? "" : "is "}${ROLES[role]} ${bold(record.runId)}`,
    ...fields.flatMap(([name, value]) =>
      value === null ? [] : [`  ${name.padEnd(9)} ${sanitizeLine(value)}`],
    ),
  ];
}
