import type { ProcessEvidence } from "../../anchor/host-interface.js";
import { NotOurs } from "../../errors.js";
import { observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import { HIDDEN_STATE, isSameMachine, isSameProcess } from "../../model/process.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import type { ReadStore } from "../../store/store.js";
import { listLiveProcesses } from "../../supervisor/inspect/live-processes.js";
import { findOwningRun, type ProcessOwner } from "../../supervisor/inspect/find-owning-run.js";
import { CLEANUP_COMMAND, runWithoutStateText } from "../../queries/runs-without-state.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { sessionToken } from "../client/requester.js";
import { openLocalState } from "../../queries/local-state-directory.js";
import { type KnownHosts, readKnownHosts } from "../client/store-hosts.js";
import { openRunView, openStoreRunView } from "../client/read-runs.js";
import { runStatusText } from "../print/run-status.js";
import { print, toJson } from "../print/write-output.js";
import { paletteFor } from "../print/colours-and-progress.js";
import { runsWithoutStateForOperator } from "./without-state-directory.js";

/** The run of a process, as JSON. */
function runOwnerJson(record: RunRecord): object {
  const { runId, state, sessionKey, agentId, backendId, labels, command, tier, leaseEpoch } = record;
  return { runId, state, sessionKey, agentId, backendId, labels, command, tier, leaseEpoch };
}

interface RecordedProcess {
  readonly record: RunRecord;
  readonly role: "leader" | "anchor";
}

/** From records alone: a local process with that pid is another process, and is not inspected. */
async function showRecordedOwner(
  store: Pick<ReadStore, "listRuns">,
  hosts: KnownHosts,
  hostIds: readonly string[],
  pid: number,
  json: boolean,
): Promise<number> {
  const open = await store.listRuns({ states: OPEN_RUN_STATES, hostIds });
  // Several boots or containers of a host may each have a process with this pid.
  const found = open.flatMap((record): RecordedProcess[] => {
    if (record.root?.pid === pid) return [{ record, role: "leader" }];
    return record.anchor?.pid === pid ? [{ record, role: "anchor" }] : [];
  });
  if (found.length === 0)
    throw new NotOurs(
      pid,
      `no open run of ${hostIds.map((hostId) => hosts.displayName(hostId)).join(", ")} has it on record as its leader or anchor; other processes there can be inspected only there`,
    );
  const shown = found.map(({ record, role }) => ({
    pid,
    hostId: record.hostId,
    hostName: hosts.nameOf(record.hostId),
    role,
    verified: false,
    evidence: [],
    ...runOwnerJson(record),
    gateway: { instanceId: record.ownerInstanceId, alive: null },
  }));
  if (json) print(toJson(shown, 2));
  else print(`${found.flatMap((each) => recordedOwnerLines(hosts, pid, each)).join("\n")}\n`);
  return 0;
}

function recordedOwnerLines(
  hosts: KnownHosts,
  pid: number,
  { record, role }: RecordedProcess,
): readonly string[] {
  const { bold } = paletteFor(1);
  return [
    `${bold(String(pid))} on ${hosts.displayName(record.hostId)} is recorded as the ${role} of ${bold(record.runId)}, not verified here`,
    `  run       ${record.runId} (${runStatusText(record)}) ${sanitizeLine(record.command)}`,
    `  gateway   ${record.ownerInstanceId}, epoch ${record.leaseEpoch}`,
  ];
}

/** Finds the run of a process, its owner, and the proof. */
export async function showProcessOwner(pid: number, host: string | null, json: boolean): Promise<number> {
  if (host !== null) {
    await using store = await openStoreRunView();
    const hosts = await readKnownHosts(store);
    const hostIds = hosts.resolve(host);
    const { hostId } = await observeMachineIdentity(resolveHome());
    if (store !== null && !hostIds.includes(hostId))
      return await showRecordedOwner(store, hosts, hostIds, pid, json);
  }
  return showLocalOwner(pid, json);
}

async function showLocalOwner(pid: number, json: boolean): Promise<number> {
  await using localState = await openLocalState();
  if (localState === null) return await showOwnerWithoutState(pid, json, "no run was ever started here");
  const { host } = localState;
  const [live] = await host.inspectProcesses([pid]);
  if (live === undefined || !live.alive) throw new NotOurs(pid, "there is no such process");
  await using found = await openRunView();
  const { view: store, unread } = found;
  const records = (await store?.listRuns({ states: OPEN_RUN_STATES })) ?? [];
  const here = records.filter((record) => isSameMachine(record, host.machine));
  // The same inspection as `ps` and `inspect`; the evidence is that of the run found.
  const runs = await listLiveProcesses(host, here);
  const holder = here.find(({ runId }) =>
    runs.get(runId)?.processes.some(({ identity }) => isSameProcess(identity, live.identity)),
  );
  const among = holder === undefined ? here : [holder];
  const belonging =
    (await findOwningRun(live, among, (paths) => host.inspectCgroups(paths))) ??
    (live.state === HIDDEN_STATE && holder !== undefined ? hiddenMember(holder) : null);
  if (belonging === null)
    return await showOwnerWithoutState(pid, json, notOursReason(live, here.length)).catch(
      (error: unknown) => {
        throw unread ?? error;
      },
    );
  const { role, evidence, record } = belonging;
  const { hostId, ownerInstanceId: instanceId } = record;
  const instances = await host.listInstances();
  const gateway = {
    instanceId,
    alive: instances.find((each) => each.instanceId === instanceId)?.alive ?? null,
  };
  const hosts = await readKnownHosts(store);
  const hostName = hosts.nameOf(hostId);
  const owner = { role, verified: role !== "claims", evidence, ...runOwnerJson(record) };
  if (json) print(toJson({ pid, hostId, hostName, ...owner, gateway }, 2));
  else
    print(
      `${ownerLines(live, belonging, gateway, hosts.hasSeveral ? hosts.displayName(hostId) : null).join("\n")}\n`,
    );
  return 0;
}

/** A hidden process names neither parent nor cgroup; the processes of the run do. */
function hiddenMember(record: RunRecord): ProcessOwner {
  const fact =
    "it is listed below the run's anchor or in its cgroup; /proc hides everything else about it (hidepid)";
  return { record, role: "member", evidence: [fact] };
}

/** A process of a run whose state directory was removed. */
async function showOwnerWithoutState(pid: number, json: boolean, otherwise: string): Promise<number> {
  const run = (await runsWithoutStateForOperator()).find(
    ({ anchor, processes }) => anchor?.pid === pid || processes.some(({ identity }) => identity.pid === pid),
  );
  if (run === undefined) throw new NotOurs(pid, otherwise);
  const role = run.anchor?.pid === pid ? "anchor" : "member";
  if (json) print(toJson({ pid, role, verified: true, withoutState: true, ...run }, 2));
  else
    print(
      `${[
        `${paletteFor(1).bold(String(pid))} is ${ROLE_TEXT[role]} ${run.runId}, which has no owner`,
        `  ${runWithoutStateText(run)}`,
        ...run.evidence.map((fact) => `  evidence  ${sanitizeLine(fact)}`),
        `  remedy    ${run.whyNot === null ? CLEANUP_COMMAND : sanitizeLine(run.whyNot)}`,
      ].join("\n")}\n`,
    );
  return 0;
}

function notOursReason(live: ProcessEvidence, runs: number): string {
  // A session gets no details: the answer must not differ from that for an unknown process.
  if (sessionToken() !== null) return "it belongs to no run that may be seen";
  if (live.state === HIDDEN_STATE)
    return "it is hidden (/proc is mounted with hidepid), and it is not below any anchor: its run is not known";
  if (live.runId !== null) return `it has the marker of ${live.runId}, which is not alive here`;
  return runs === 0 ? "no run is open here" : "neither its ancestry nor its cgroup leads to a run";
}

const ROLE_TEXT = {
  anchor: "the anchor of",
  leader: "the leader of",
  member: "a process of",
  claims: "claims to be a process of",
} as const;

function ownerLines(
  live: ProcessEvidence,
  { record, role, evidence }: ProcessOwner,
  gateway: { readonly instanceId: string; readonly alive: boolean | null },
  host: string | null,
): string[] {
  const { bold } = paletteFor(1);
  const labels = Object.entries(record.labels).map(([key, value]) => `${key}=${value}`);
  const alive = gateway.alive === null ? "not of this state directory" : gateway.alive ? "alive" : "gone";
  const fields: [string, string | null][] = [
    ["host", host],
    ["command", live.state === HIDDEN_STATE ? "(hidden)" : sanitizeLine(live.argv.join(" ") || live.command)],
    ["run", `${record.runId} (${runStatusText(record)}) ${sanitizeLine(record.command)}`],
    ["session", record.sessionKey],
    ["agent", record.agentId],
    ["labels", labels.length === 0 ? null : labels.join(" ")],
    ["gateway", `${gateway.instanceId} (${alive}), epoch ${record.leaseEpoch}`],
    ["tier", record.tier],
    ...evidence.map((fact): [string, string] => ["evidence", fact]),
  ];
  return [
    `${bold(String(live.identity.pid))} ${role === "claims" ? "" : "is "}${ROLE_TEXT[role]} ${bold(record.runId)}`,
    ...fields.flatMap(([name, value]) =>
      value === null ? [] : [`  ${name.padEnd(9)} ${sanitizeLine(value)}`],
    ),
  ];
}
