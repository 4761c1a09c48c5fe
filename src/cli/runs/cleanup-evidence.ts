import { systemClock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import { readStateId } from "../../home/state-id.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import type { RunFilter } from "../../store/runs/contract.js";
import type { ReadStore } from "../../store/store.js";
import {
  listLiveProcesses,
  notInspected,
  type RunProcesses,
} from "../../supervisor/inspect/live-processes.js";
import {
  buildReconcileContext,
  type Classified,
  classifyRecords,
} from "../../supervisor/reconcile/reconcile.js";
import { cgroupOf, runAddressOf } from "../../supervisor/run/recorded-identity.js";
import { isOfOtherState, type LocalState } from "../../queries/local-state-directory.js";

/** An open run with the evidence that its processes belong to it. */
export interface RunEvidence extends Omit<Classified, "evidence"> {
  readonly evidence: readonly string[];
  /** Its anchor answers: it can be stopped with its control key, whatever instance owns the lease. */
  readonly answers: boolean;
  /** It belongs to another state directory, here or on another host: only the gateway there can stop it. */
  readonly elsewhere: boolean;
  /** True if the lock of its owner is held, whatever the state of its lease. Null: the lock cannot be checked here. */
  readonly ownerAlive: boolean | null;
  /** How long its lease still protects its record; 0: it has expired. */
  readonly leaseMs: number;
  /** The same processes as in `ps` and `inspect`. */
  readonly processes: RunProcesses;
}

export async function gatherRunEvidence(
  localState: LocalState,
  store: ReadStore,
  filter: Pick<RunFilter, "labels" | "sessionKey" | "sessionId" | "agentId">,
  runId: string | null,
): Promise<readonly RunEvidence[]> {
  const { host } = localState;
  const records = await store.listRuns({ ...filter, states: OPEN_RUN_STATES });
  const wanted = runId === null ? records : records.filter((record) => record.runId === runId);
  const stateId = await readStateId(localState.directory.home);
  const around = await buildReconcileContext(host, { instanceId: "", stateId }, await store.now());
  const examined = await classifyRecords(host, systemClock, around, wanted);
  const instances = new Set(around.instances.keys());
  const live = await listLiveProcesses(host, wanted, records);
  return Promise.all(
    examined.map(async (each) => {
      const { record } = each;
      const elsewhere = store.shared && isOfOtherState(record, stateId, instances);
      const answers = await anchorAnswers(localState, record);
      const ownerAlive = around.instances.get(record.ownerInstanceId)?.alive ?? null;
      const leaseMs = Math.max(0, record.leaseExpiresAt - around.now);
      const processes = live.get(record.runId) ?? notInspected("it was not inspected");
      const evidence = evidenceText(each, answers, processes);
      return { ...each, answers, elsewhere, ownerAlive, leaseMs, processes, evidence };
    }),
  );
}

async function anchorAnswers({ host }: LocalState, record: RunRecord): Promise<boolean> {
  if (record.imported !== null) return false;
  const observer = await host.attach(runAddressOf(record), 0, defaults.anchorAnswerMs).catch(() => null);
  observer?.close();
  return observer !== null;
}

/** Facts with the value that each was compared with. A name or a command line is no evidence. */
function evidenceText(
  { record, evidence: sight }: Classified,
  answers: boolean,
  live: RunProcesses,
): string[] {
  const { anchor, root, imported } = record;
  const facts: string[] = [];
  if (answers) facts.push("its anchor answers to the key in its run directory");
  if (live.anchor?.matches === true && anchor !== null) facts.push(`anchor ${identityText(anchor)} is alive`);
  if (live.root?.matches === true && root !== null) facts.push(`leader ${identityText(root)} is alive`);
  const cgroup = cgroupOf(record);
  const orphaned = live.anchor?.matches !== true && live.root?.matches !== true && live.processes.length > 0;
  if ((sight?.boundary === "populated" || orphaned) && cgroup !== null)
    facts.push(`cgroup ${cgroup.path} (inode ${cgroup.inode}) is not empty`);
  if (sight?.exitFile === true) facts.push("its exit file is there");
  if (sight?.swept === true) facts.push("its launcher has swept it");
  if (imported !== null && sight?.imported?.kind === "matches")
    facts.push(`process ${imported.pid} runs the recorded command from below ${imported.wrapperRoot}`);
  return facts;
}

function identityText({ pid, startTime, uniqueId }: NonNullable<RunRecord["root"]>): string {
  return uniqueId === null ? `${pid} (start ${startTime})` : `${pid} (start ${startTime}, id ${uniqueId})`;
}
