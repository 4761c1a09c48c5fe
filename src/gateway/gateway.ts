import { OPEN_STATES } from "../store/run-record.js";
import { secretVariables } from "../channels/entry.js";
import { defaults } from "../defaults.js";
import { InstanceLocked, type InstanceTaken, StateUnusable, StoreAway } from "../errors.js";
import { keptId } from "../store/kept-id.js";
import { ledgerIn } from "../store/ledger/file-ledger.js";
import { rememberingTasks } from "../store/ledger/remembering-tasks.js";
import { TaskLedger } from "../store/ledger/task-ledger.js";
import type { Store } from "../store/store.js";
import { reportReadableSecrets } from "../store/readable-secrets.js";
import { openStateDirectory, resolveHome } from "../store/state-directory.js";
import type { Problem, Supervisor } from "../supervisor/api.js";
import { deferred } from "../supervisor/deferred.js";
import { isInstanceId, newInstanceId } from "../supervisor/ids.js";
import { openSupervisorAndStore } from "../supervisor/open.js";
import { Callers } from "./callers.js";
import { parseConfig, type Config } from "./config.js";
import { noteConfig, noteProcess } from "./gateway-file.js";
import { openOffice } from "./office.js";
import { Rounds } from "./rounds.js";
import type { Denial } from "./sights.js";
import type { StopPolicy } from "./stop.js";
import { noteWaiting, noteWaitingOver } from "./waiting.js";
import { TaskRestorer } from "./work/restore-tasks.js";

/** What a gateway has to say, for a log. */
export type GatewayNews =
  | { readonly type: "up"; readonly instanceId: string; readonly home: string; readonly pid: number }
  /** It has looked at everything once, and holds this many runs. */
  | { readonly type: "ready"; readonly held: number }
  /** A round that found something: one decision for each run that was not as it should be. */
  | {
      readonly type: "decision";
      readonly runId: string;
      readonly row: string;
      readonly action: string;
      readonly why: string;
    }
  | {
      readonly type: "retained";
      readonly records: number;
      readonly outputs: number;
      readonly sessions: number;
      readonly approvals: number;
      readonly messages: number;
      readonly updates: number;
    }
  | {
      readonly type: "problem";
      readonly runId: string | null;
      readonly message: string;
      readonly cause: string;
    }
  /** A session asked for what it may not see; to it, that looked as if there were no such thing. */
  | ({ readonly type: "denied" } & Denial)
  /** Its store is away: it holds its runs, and asks again. */
  | { readonly type: "waiting"; readonly why: string; readonly held: number }
  | { readonly type: "down"; readonly left: number };

export interface GatewayOptions {
  readonly home?: string;
  readonly onNews: (news: GatewayNews) => void;
  /** Default: what holds when no file says anything. */
  readonly config?: Config;
  /** The configuration as the text of a file: kept for a restart that has to go back to it. */
  readonly configText?: string;
  readonly requestMs?: number;
  /** Whether to wait for a store that is away, or to fail. Default: to wait. */
  readonly waits?: boolean;
  /** Ends the waiting. */
  readonly signal?: AbortSignal;
}

/** A resident supervisor: holds runs, renews their leases, and looks after runs that have lost theirs. */
export interface Gateway {
  readonly instanceId: string;
  readonly supervisor: Supervisor;
  /** Resolves after the first rounds: what a former gateway or a dead supervisor left has been looked at. Never rejects. */
  readonly ready: Promise<void>;
  /** Resolves when somebody has asked it to stop, over the API. */
  readonly asked: Promise<void>;
  /** Resolves when another process of this gateway's instance has replaced it: this process must exit. */
  readonly taken: Promise<InstanceTaken>;
  /**
   * See to the runs as told, by default as was asked over the API, then let go of everything. What is left stays with its
   * anchors, for the next gateway.
   */
  stop(policy?: StopPolicy): Promise<void>;
}

/** Rejects when another gateway of this state directory lives. */
export async function openGateway({
  home: chosen,
  onNews,
  config = parseConfig("", ""),
  configText = "",
  requestMs = defaults.requestMs,
  waits = true,
  signal,
}: GatewayOptions): Promise<Gateway> {
  const startedAt = Date.now();
  const { home } = await openStateDirectory(chosen ?? resolveHome());
  const instanceId = await gatewayId(home);
  const problem = ({ runId, message, cause }: Problem): void =>
    onNews({ type: "problem", runId, message, cause: cause instanceof Error ? cause.message : "" });
  reportReadableSecrets((message) => problem({ runId: null, message, cause: null }));
  let held = 0;
  const away = (error: StoreAway, kept = held): void => {
    held = kept;
    noteWaiting(home, { instanceId, pid: process.pid, since: startedAt, why: error.message, held });
    onNews({ type: "waiting", why: error.message, held });
  };
  const until = signal === undefined ? {} : { signal };
  const taken = deferred<InstanceTaken>();
  let isTaken = false;
  const { supervisor, store } = await openSupervisorAndStore({
    home,
    instanceId,
    actor: `gateway:${instanceId}`,
    onProblem: problem,
    onTaken: (error) => {
      isTaken = true;
      taken.resolve(error);
    },
    withheldEnv: secretVariables(config.channels),
    ...(waits ? { onStoreAway: away, ...until } : {}),
  }).catch((error: unknown) => {
    if (error instanceof InstanceLocked) throw alreadyRunning(home, error);
    noteWaitingOver(home);
    throw error;
  });
  onNews({ type: "up", instanceId, home, pid: process.pid });
  const unnoted = (cause: unknown): void =>
    problem({
      runId: null,
      message: "gateway.json or config.toml of this gateway could not be written",
      cause,
    });
  await noteProcess(home, instanceId).catch(unnoted);
  const callers = new Callers(supervisor);
  let looked = false;
  const copies = store.shared ? await openTaskCopies(home, store, instanceId, problem) : null;
  const office = await openOffice({
    home,
    store: copies?.store ?? store,
    supervisor,
    callers,
    startedAt,
    ready: () => looked,
    isTaken: () => isTaken,
    config,
    requestMs,
    problem,
    denied: (denial) => onNews({ type: "denied", ...denial }),
    waiting: waits ? { away: async (error) => away(error, await supervisor.holdOn()), ...until } : null,
  })
    .catch(async (error: unknown) => {
      await copies?.ledger[Symbol.asyncDispose]();
      await supervisor.close({ leaveRuns: true });
      throw error;
    })
    .finally(() => noteWaitingOver(home));

  const rounds = new Rounds((message, cause) => problem({ runId: null, message, cause }));
  const beingStopped = new Set<string>();
  /** The round itself reports a store that is unreachable. */
  const notCompared = (cause: unknown): number => {
    if (!(cause instanceof StoreAway))
      problem({
        runId: null,
        message: "tasks could not be compared with their local copies; retrying",
        cause,
      });
    return 0;
  };
  const reconcile = async (): Promise<void> => {
    // First, so that no later step acts on records that the store has lost.
    const restored = (await copies?.restorer.look().catch(notCompared)) ?? 0;
    const { decisions, runs } = await supervisor.reconcile();
    for (const { runId, callerBound } of runs) if (callerBound) callers.expectBack(runId);
    office.takeOver(runs);
    if (looked) await office.acp.takeUp(runs);
    for (const { runId, row, action, why } of decisions)
      // What is left alone has been said when it came to be so.
      if (action !== "leave") onNews({ type: "decision", runId, row, action, why });
    await stopHidden(supervisor, beingStopped);
    await office.look();
    if (restored > 0 && looked) await office.lookAfterTasks();
  };
  const retain = async (): Promise<void> => {
    const kept = { ...(await supervisor.retain()), ...(await office.retain()) };
    if (Object.values(kept).some((count) => count > 0)) onNews({ type: "retained", ...kept });
  };
  const openRuns = async (): Promise<number> => {
    const open = { ownerInstanceId: instanceId, states: OPEN_STATES } as const;
    return supervisor.listRuns(open).then(
      (found) => found.length,
      () => supervisor.runs().filter(({ state }) => state !== "exited").length,
    );
  };
  let stopped = false;
  void rounds.begin("saying that this gateway is there", defaults.renewMs, () => office.beat());
  const ready = rounds
    .begin("looking after runs without an owner", defaults.reconcileMs, reconcile)
    .then(async () => {
      if (stopped) return;
      await office.acp.reapStartupOrphans().catch((cause: unknown) => {
        if (!stopped) problem({ runId: null, message: "sessions of agents could not be taken up", cause });
      });
      // Not before: a gateway that fails to start leaves the configuration of the one before it.
      if (!stopped) await noteConfig(home, instanceId, configText).catch(unnoted);
      looked = true;
      return rounds.begin("taking up what was handed over", defaults.commandLookMs, () => office.takeUp());
    })
    .then(() => rounds.begin("looking after tasks", defaults.taskSweepMs, () => office.lookAfterTasks()))
    .then(() => rounds.begin("forgetting old runs", defaults.retainMs, retain))
    .then(async () => {
      const now = await openRuns();
      if (!stopped) onNews({ type: "ready", held: now });
    });
  return {
    instanceId,
    supervisor,
    ready,
    asked: office.asked,
    taken: taken.promise,
    stop: async (policy) => {
      // Not waited for before the supervisor closes: a round may wait for a store that does not come back.
      stopped = true;
      const ended = rounds.end();
      await office.settling.settle(policy);
      const left = await openRuns();
      await office[Symbol.asyncDispose]();
      await copies?.ledger[Symbol.asyncDispose]();
      await supervisor.close({ leaveRuns: !office.settling.terminates });
      await ended;
      onNews({ type: "down", left });
    },
  };
}

/** What was removed while it ran, and whose stop was lost with a gateway. Told again, it changes nothing. */
async function stopHidden(supervisor: Supervisor, beingStopped: Set<string>): Promise<void> {
  const open = await supervisor.listRuns({ ...(await supervisor.scope()), states: OPEN_STATES });
  for (const { runId, hiddenAt } of open) {
    if (hiddenAt === null || beingStopped.has(runId)) continue;
    beingStopped.add(runId);
    void supervisor
      .stop(runId, { actor: "removed" })
      .catch(() => undefined)
      .finally(() => beingStopped.delete(runId));
  }
}

interface TaskCopies {
  /** Records tasks, messages and sessions that are written to the store. */
  readonly store: Store;
  readonly ledger: TaskLedger;
  readonly restorer: TaskRestorer;
}

/** Null: no copy can be kept on this host. This is reported, and the gateway works without a copy. */
async function openTaskCopies(
  home: string,
  store: Store,
  instanceId: string,
  problem: (problem: Problem) => void,
): Promise<TaskCopies | null> {
  const directory = ledgerIn(home);
  try {
    const ledger = await TaskLedger.open(directory);
    const failing = (message: string, cause: unknown): void => problem({ runId: null, message, cause });
    return {
      store: rememberingTasks(store, ledger, failing),
      ledger,
      restorer: new TaskRestorer({ store, ledger, directory, instanceId, problem }),
    };
  } catch (cause) {
    const message =
      "no copy of tasks can be kept on this host; after the restore of an older backup, newer tasks could not be put back";
    problem({ runId: null, message, cause });
    return null;
  }
}

/** One per state directory, the same over restarts: what it left it finds again. */
export async function gatewayId(home: string): Promise<string> {
  const id = await keptId(home, "gateway-id", newInstanceId);
  if (isInstanceId(id)) return id;
  throw new StateUnusable(
    home,
    `${home}/gateway-id does not hold an instance id; nothing was started. If it was damaged, remove it: runs of the former gateway are then taken over when their leases have expired.`,
  );
}

function alreadyRunning(home: string, { instanceId }: InstanceLocked): InstanceLocked {
  const message = `a gateway is already running for ${home} (instance ${instanceId}); nothing was started`;
  return new InstanceLocked(instanceId, message);
}
