import type { RunAddress } from "../../anchor/host-interface.js";
import { systemClock } from "../../async/clock.js";
import { runConcurrently } from "../../async/concurrency.js";
import { defaults } from "../../defaults.js";
import { describeWaitingGateway, findWaitingGateway } from "../gateway-files.js";
import { describeUnreachable, locateGateway } from "../locate-gateway.js";
import { errorMessage } from "../../home/errno.js";
import { readOwnFile } from "../../home/own-file.js";
import type { StateDirectory } from "../../home/state-directory.js";
import { readStateId } from "../../home/state-id.js";
import { OPEN_RUN_STATES } from "../../model/run.js";
import { openStoreForReading } from "../../store/open.js";
import { listLiveProcesses, type RunProcesses } from "../../supervisor/inspect/live-processes.js";
import { buildReconcileContext, classifyRecords } from "../../supervisor/reconcile/reconcile.js";
import { stateDirectoryFilter } from "../../supervisor/retention.js";
import { isStoreShared, type LocalState } from "../../queries/local-state-directory.js";
import {
  CLEANUP_COMMAND,
  listRunsWithoutState,
  runWithoutStateText,
} from "../../queries/runs-without-state.js";
import { bad, type Check, ok, warn } from "./check-result.js";

/** Checks supervisors, launchers, locks and anchors of the state directory. */
export async function checkRuns(localState: LocalState): Promise<RunChecks> {
  const { check, processes } = await checkOpenRuns(localState);
  const checks = [
    await checkInstances(localState),
    check,
    await checkAnchors(localState),
    await checkLocalGateway(localState),
  ];
  return { checks, processes };
}

export interface RunChecks {
  readonly checks: readonly Check[];
  /** The live processes of every open run of this state directory. */
  readonly processes: ReadonlyMap<string, RunProcesses>;
}

async function checkLocalGateway({ host, directory }: LocalState): Promise<Check> {
  const id = (await readOwnFile(`${directory.home}/gateway-id`).catch(() => "")).trim();
  if (id === "") return ok("gateway", "no gateway has run here yet");
  const found = (await host.listInstances()).find(({ instanceId }) => instanceId === id);
  const waiting = await findWaitingGateway(directory.home);
  if (found?.alive === true && waiting !== null)
    return warn("gateway", describeWaitingGateway(waiting), "it continues when the store is available again");
  if (found?.alive !== true) return ok("gateway", `${id} is not running`);
  const located = await locateGateway(directory.home);
  if (located.kind === "unreachable")
    return warn(
      "gateway",
      describeUnreachable(directory.home, located.gateway),
      "holdfast gateway restart replaces it; its runs continue",
    );
  return ok("gateway", `${id} is running`);
}

/** A lock without a holder is no fault: its instance's runs are kept for their output, or taken over by a gateway. */
async function checkInstances({ host, directory }: LocalState): Promise<Check> {
  const name = "instances";
  const all = await host.listInstances();
  const dead = all.filter((each) => !each.alive);
  const launchers = all.filter((each) => each.launched).length;
  const detail = `alive: ${all.length - dead.length}, without a holder of their lock: ${dead.length}, launchers: ${launchers}`;
  await using store = await openStoreForReading(directory.storePath).catch(() => null);
  if (store === null) return ok(name, detail);
  const left = (await Promise.all(dead.map(({ instanceId }) => host.listRunIds(instanceId)))).flat();
  const records = await Promise.all(left.map((runId) => store.getRun(runId)));
  const unknown = left.filter((_, at) => records[at] === null);
  if (unknown.length === 0) return ok(name, detail);
  return warn(
    name,
    `${detail}; ${unknown.length} run directories without a record: ${unknown.slice(0, 5).join(", ")}`,
    "a gateway creates the records and takes over live runs: holdfast gateway run",
  );
}

async function checkOpenRuns({
  host,
  directory,
}: LocalState): Promise<{ readonly check: Check; readonly processes: RunChecks["processes"] }> {
  const name = "runs";
  const none = new Map<string, RunProcesses>();
  try {
    await using store = await openStoreForReading(directory.storePath);
    const stateId = await readStateId(directory.home);
    const records =
      store === null
        ? []
        : await store.listRuns({
            ...(await stateDirectoryFilter(store, host, stateId)),
            states: OPEN_RUN_STATES,
          });
    if (store === null || records.length === 0) return { check: ok(name, "none is open"), processes: none };
    const around = await buildReconcileContext(host, { instanceId: "", stateId }, await store.now());
    const examined = await classifyRecords(host, systemClock, around, records);
    const processes = await listLiveProcesses(host, records);
    const orphans = examined.filter(
      ({ claim, record }) => claim !== null || around.instances.get(record.ownerInstanceId)?.alive === false,
    );
    const all = [...processes.values()];
    const alive = all.reduce((count, run) => count + run.processes.length, 0);
    const unknown = all.filter((run) => run.unknown !== null).length;
    const owned = `${records.length} open, ${records.length - orphans.length} with an owner`;
    const orphaned = orphans.length === 0 ? "" : `, ${orphans.length} without one`;
    const unseen = unknown === 0 ? "" : `; ${unknown} with processes that could not be inspected`;
    const detail = `${owned}${orphaned}; ${alive} live processes${unseen}`;
    if (orphans.length === 0 && unknown === 0) return { check: ok(name, detail), processes };
    const remedy =
      orphans.length === 0
        ? "holdfast runs show <run> shows why"
        : "holdfast gateway run takes them over; holdfast runs cleanup --all-orphans ends them";
    return { check: warn(name, detail, remedy), processes };
  } catch (error) {
    return { check: bad(name, errorMessage(error)), processes: none };
  }
}

/** Live runs whose state directory was removed. Reports nothing when there are none. */
export async function checkRunsWithoutState(home: string): Promise<Check[]> {
  const found = await listRunsWithoutState(home);
  return found.map((run) =>
    warn("runs without a state directory", runWithoutStateText(run), run.whyNot ?? CLEANUP_COMMAND),
  );
}

/** Reads the run directories, so it needs no store. */
async function checkAnchors({ host }: LocalState): Promise<Check> {
  const name = "anchors";
  const runs: RunAddress[] = [];
  for (const { instanceId } of await host.listInstances())
    for (const runId of await host.listRunIds(instanceId).catch(() => [])) runs.push({ instanceId, runId });
  const probed = await runConcurrently(
    defaults.recoverAtOnce,
    runs.map((run) => async () => ({ run, answers: await anchorAnswers(host, run) })),
  );
  const silent = probed.filter((each) => each.answers === false).map(({ run }) => run.runId);
  const answering = probed.filter((each) => each.answers === true).length;
  if (silent.length === 0) return ok(name, answering === 0 ? "none is running" : `${answering} answer`);
  return warn(
    name,
    `${silent.length} of ${answering + silent.length} do not answer (stopped, or held by a debugger): ${silent.join(", ")}`,
    "a gateway sends them SIGCONT; holdfast stop <run> ends a run without its anchor",
  );
}

/** Null: the run has ended, or no anchor listens. */
async function anchorAnswers(host: LocalState["host"], run: RunAddress): Promise<boolean | null> {
  try {
    const link = await host.attach(run, 0, defaults.anchorContinueMs);
    link?.close();
    return link === null ? null : true;
  } catch {
    return false;
  }
}

/** Leases and deadlines do not use the wall clock; times shown to users do. */
export async function checkClock({ storePath }: StateDirectory): Promise<Check> {
  const now = Date.now();
  const name = "clock";
  await using store = await openStoreForReading(storePath).catch(() => null);
  const [newest] = (await store?.listRuns({ limit: 1 }).catch(() => [])) ?? [];
  const shared = await isStoreShared().catch(() => false);
  if (newest !== undefined && newest.createdAt > now + 60_000)
    return warn(
      name,
      shared
        ? "the newest run started in the future by this clock: the clock was set back, or the clock of another host is ahead"
        : "the newest run started in the future by this clock: the clock was set back",
      "displayed times are wrong; leases and deadlines are not affected",
    );
  if (now < Date.UTC(2025, 0))
    return warn(
      name,
      `the system clock is in the year ${new Date(now).getUTCFullYear()}`,
      "set the clock; leases and deadlines are not affected",
    );
  const used = shared
    ? "leases use the database's clock, deadlines the monotonic one"
    : process.platform === "linux"
      ? "leases use the monotonic clock of the initial time namespace, deadlines this one's"
      : "leases and deadlines use the monotonic clock";
  return ok(name, `${new Date(now).toISOString()}; ${used}`);
}
