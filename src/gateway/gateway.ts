import type { ShutdownPolicy } from "../api/routes/gateway.js";
import { deferred } from "../async/deferred.js";
import { ThrottledCheck } from "../async/throttled-check.js";
import { secretVariables } from "../config/channels.js";
import { type Config, parseConfig } from "../config/schema.js";
import { defaults } from "../defaults.js";
import { InstanceLocked, type InstanceTaken, StoreAway } from "../errors.js";
import { onReadableSecret } from "../home/path-trust.js";
import { resolveHome } from "../home/state-directory.js";
import { loadOrCreateGatewayId } from "../home/persistent-ids.js";
import { OPEN_RUN_STATES } from "../model/run.js";
import type { AccessDenial } from "../sessions/authorizer.js";
import { localCopyDirectory } from "../store/local-copy/run-copy.js";
import { TaskCopy } from "../store/local-copy/task-copy.js";
import { withTaskCopy } from "../store/local-copy/with-task-copy.js";
import { openStateDirectory } from "../store/open-state-directory.js";
import type { Store } from "../store/store.js";
import type { Problem, Supervisor } from "../supervisor/api.js";
import { openSupervisorAndStore } from "../supervisor/open.js";
import { TaskRestorer } from "./background/task-restorer.js";
import { composeGateway } from "./compose.js";
import { ForegroundClients } from "./foreground/foreground-clients.js";
import { removeWaitFile, saveConfig, writeProcessFile, writeWaitFile } from "./gateway-files.js";
import { type DeletedRecords, PeriodicJobs, stopRemovedRuns } from "./periodic-jobs.js";

/** Events of a gateway, for its log. */
export type GatewayEvent =
  | { readonly type: "up"; readonly instanceId: string; readonly home: string; readonly pid: number }
  /** The first reconciliation is done; `held` is the number of owned runs. */
  | { readonly type: "ready"; readonly held: number }
  /** The decisions of a reconciliation, one for each run that needed one. */
  | {
      readonly type: "decision";
      readonly runId: string;
      readonly row: string;
      readonly action: string;
      readonly why: string;
    }
  | ({ readonly type: "retained"; readonly records: number; readonly outputs: number } & DeletedRecords)
  | {
      readonly type: "problem";
      readonly runId: string | null;
      readonly message: string;
      readonly cause: string;
    }
  /** A session requested a record that it may not see, and got the answer that the record does not exist. */
  | ({ readonly type: "denied" } & AccessDenial)
  /** The store is unreachable. The gateway keeps its runs and retries. */
  | { readonly type: "waiting"; readonly why: string; readonly held: number }
  | { readonly type: "down"; readonly left: number };

export interface GatewayOptions {
  readonly home?: string;
  readonly onEvent: (news: GatewayEvent) => void;
  /** Default: the built-in configuration. */
  readonly config?: Config;
  /** The text of the configuration file, kept so that a failed restart can go back to it. */
  readonly configText?: string;
  readonly requestMs?: number;
  /** Wait for an unreachable store instead of failing. Default: true. */
  readonly waitForStore?: boolean;
  /** Aborts the wait for the store. */
  readonly signal?: AbortSignal;
}

/** A long-lived supervisor with an API. It renews the leases of its runs and reconciles runs without an owner. */
export interface Gateway {
  readonly instanceId: string;
  readonly supervisor: Supervisor;
  /** Resolves after the first reconciliation. Never rejects. */
  readonly ready: Promise<void>;
  /** Resolves when a stop was requested over the API. */
  readonly stopRequested: Promise<void>;
  /** Resolves when another process of this gateway's instance has replaced it: this process must exit. */
  readonly replaced: Promise<InstanceTaken>;
  /**
   * Applies the shutdown policy to the runs (default: the policy that was requested over the API), then closes everything.
   * The remaining runs continue under their anchors until the next gateway acquires them.
   */
  stop(policy?: ShutdownPolicy): Promise<void>;
}

/** Rejects with InstanceLocked if another gateway of this state directory is alive. */
export async function openGateway({
  home: chosen,
  onEvent,
  config = parseConfig("", ""),
  configText = "",
  requestMs = defaults.requestMs,
  waitForStore = true,
  signal,
}: GatewayOptions): Promise<Gateway> {
  const startedAt = Date.now();
  const { home } = await openStateDirectory(chosen ?? resolveHome());
  const instanceId = await loadOrCreateGatewayId(home);
  const onProblem = ({ runId, message, cause }: Problem): void =>
    onEvent({ type: "problem", runId, message, cause: cause instanceof Error ? cause.message : "" });
  const report = (message: string, cause: unknown): void => onProblem({ runId: null, message, cause });
  onReadableSecret((message) => report(message, null));
  let held = 0;
  const onStoreAway = (error: StoreAway, kept = held): void => {
    held = kept;
    writeWaitFile(home, { instanceId, pid: process.pid, since: startedAt, why: error.message, held });
    onEvent({ type: "waiting", why: error.message, held });
  };
  const until = signal === undefined ? {} : { signal };
  const replaced = deferred<InstanceTaken>();
  let isReplaced = false;
  const storeOptions = { backgroundCheckpoints: true };
  const { supervisor, store } = await openSupervisorAndStore(
    {
      home,
      instanceId,
      actor: `gateway:${instanceId}`,
      onProblem,
      onTaken: (error) => {
        isReplaced = true;
        replaced.resolve(error);
      },
      withheldEnv: secretVariables(config.channels),
      ...(waitForStore ? { onStoreAway, ...until } : {}),
    },
    storeOptions,
  ).catch((error: unknown) => {
    if (error instanceof InstanceLocked) throw gatewayAlreadyRunning(home, error);
    removeWaitFile(home);
    throw error;
  });
  onEvent({ type: "up", instanceId, home, pid: process.pid });
  const reportUnwrittenFile = (cause: unknown): void =>
    report("gateway.json or config.toml of this gateway could not be written", cause);
  await writeProcessFile(home, instanceId).catch(reportUnwrittenFile);
  const foregroundClients = new ForegroundClients(supervisor);
  let firstPassDone = false;
  const taskCopy = store.shared ? await openLocalTaskCopy(home, store, instanceId, onProblem) : null;
  const services = await composeGateway({
    home,
    store: taskCopy?.store ?? store,
    supervisor,
    foregroundClients,
    startedAt,
    ready: () => firstPassDone,
    isReplaced: () => isReplaced,
    config,
    requestMs,
    onProblem,
    onDenied: (denial) => onEvent({ type: "denied", ...denial }),
    storeWait: waitForStore
      ? { onStoreAway: async (error) => onStoreAway(error, await supervisor.holdOn()), ...until }
      : null,
  })
    .catch(async (error: unknown) => {
      await taskCopy?.localCopy[Symbol.asyncDispose]();
      await supervisor.close({ leaveRuns: true });
      throw error;
    })
    .finally(() => removeWaitFile(home));

  const jobs = new PeriodicJobs(report);
  const beingStopped = new Set<string>();
  const leftovers = {
    sessions: new ThrottledCheck(defaults.leftoverCheckMs, () => services.acp.resumeSessionsOf([])),
    removedRuns: new ThrottledCheck(defaults.leftoverCheckMs, () =>
      stopRemovedRuns(supervisor, beingStopped),
    ),
    prompts: services.unansweredPrompts,
  };
  /** The periodic job itself reports an unreachable store. */
  const reportNotCompared = (cause: unknown): number => {
    if (!(cause instanceof StoreAway))
      report("tasks could not be compared with their local copies; retrying", cause);
    return 0;
  };
  const reconcile = async (): Promise<void> => {
    // First, so that no later step acts on records that the store has lost.
    const restored = (await taskCopy?.restorer.restoreLost().catch(reportNotCompared)) ?? 0;
    const { decisions, runs } = await supervisor.reconcile();
    for (const { runId, callerBound } of runs) if (callerBound) foregroundClients.awaitReattach(runId);
    services.registerRecoveredRuns(runs);
    if (runs.length > 0 || restored > 0) for (const each of Object.values(leftovers)) each.wake();
    if (firstPassDone && runs.length > 0) await services.acp.resumeSessionsOf(runs);
    else if (firstPassDone) await leftovers.sessions.run();
    for (const { runId, row, action, why } of decisions)
      // Runs that stay as they are were reported when they got there.
      if (action !== "leave") onEvent({ type: "decision", runId, row, action, why });
    await leftovers.removedRuns.run();
    await leftovers.prompts.run();
    if (restored > 0 && firstPassDone) await services.maintainTasks();
  };
  const retain = async (): Promise<void> => {
    const kept = { ...(await supervisor.retain()), ...(await services.applyRetention()) };
    if (Object.values(kept).some((count) => count > 0)) onEvent({ type: "retained", ...kept });
  };
  const openRuns = async (): Promise<number> => {
    const open = { ownerInstanceId: instanceId, states: OPEN_RUN_STATES } as const;
    return supervisor.listRuns(open).then(
      (found) => found.length,
      () => supervisor.runs().filter(({ state }) => state !== "exited").length,
    );
  };
  let stopped = false;
  void jobs.schedule("gateway heartbeat", defaults.renewMs, () => services.heartbeat());
  const ready = jobs
    .schedule("reconciliation of runs", defaults.reconcileMs, reconcile)
    .then(async () => {
      if (stopped) return;
      await services.acp.reconcileAtStartup().catch((cause: unknown) => {
        if (!stopped) report("sessions of agents could not be recovered", cause);
      });
      // Written only now: a gateway that fails to start keeps the configuration of its predecessor.
      if (!stopped) await saveConfig(home, instanceId, configText).catch(reportUnwrittenFile);
      firstPassDone = true;
      return jobs.schedule("execution of remote stops", defaults.commandPollMs, () =>
        services.processRemoteStops(),
      );
    })
    .then(() => jobs.schedule("check of inboxes", defaults.inboxPollMs, () => services.checkInboxes()))
    .then(() => jobs.schedule("maintenance of tasks", defaults.taskSweepMs, () => services.maintainTasks()))
    .then(() => jobs.schedule("retention", defaults.retainMs, retain))
    .then(async () => {
      const now = await openRuns();
      if (!stopped) onEvent({ type: "ready", held: now });
    });
  return {
    instanceId,
    supervisor,
    ready,
    stopRequested: services.stopRequested,
    replaced: replaced.promise,
    stop: async (policy) => {
      // Awaited after the supervisor is closed: a job may wait for a store that does not come back.
      stopped = true;
      const ended = jobs.stop();
      await services.shutdown.request(policy);
      const left = await openRuns();
      await services[Symbol.asyncDispose]();
      await taskCopy?.localCopy[Symbol.asyncDispose]();
      await supervisor.close({ leaveRuns: !services.shutdown.terminates });
      await ended;
      onEvent({ type: "down", left });
    },
  };
}

interface LocalTaskCopy {
  /** Records tasks, messages and sessions that are written to the store. */
  readonly store: Store;
  readonly localCopy: TaskCopy;
  readonly restorer: TaskRestorer;
}

/** Null: no copy can be kept on this host. This is reported, and the gateway works without a copy. */
async function openLocalTaskCopy(
  home: string,
  store: Store,
  instanceId: string,
  onProblem: (problem: Problem) => void,
): Promise<LocalTaskCopy | null> {
  const directory = localCopyDirectory(home);
  try {
    const localCopy = await TaskCopy.open(directory);
    const onFailure = (message: string, cause: unknown): void => onProblem({ runId: null, message, cause });
    return {
      store: withTaskCopy(store, localCopy, onFailure),
      localCopy,
      restorer: new TaskRestorer({ store, localCopy, directory, instanceId, onProblem }),
    };
  } catch (cause) {
    const message =
      "no local copy of tasks can be kept on this host; after the restore of an older backup, newer tasks are lost";
    onProblem({ runId: null, message, cause });
    return null;
  }
}

function gatewayAlreadyRunning(home: string, { instanceId }: InstanceLocked): InstanceLocked {
  const message = `a gateway is already running for ${home} (instance ${instanceId}); nothing was started`;
  return new InstanceLocked(instanceId, message);
}
