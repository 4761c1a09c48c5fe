import type { LiveProcesses } from "../../anchor/inspect/processes.js";
import { MAX_LISTED_PROCESSES } from "../../anchor/protocol/messages.js";
import type { Clock } from "../../async/clock.js";
import { deferred } from "../../async/deferred.js";
import { errorMessage } from "../../home/errno.js";
import type { LeftoverProcess, TurnAudit } from "../../model/acp/session-and-turn.js";
import { isSameProcess } from "../../model/process.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import { redactedExcerpt } from "../../text/redact.js";
import { listOpenTerminals, type Terminals } from "../client/terminals.js";
import type { AcpLimits } from "../limits.js";
import type { SessionWriter } from "../session-writer.js";
import type { RunningTurn } from "../turn/running-turn.js";

/** The runs that an agent's processes belong to. */
interface AgentProcesses {
  readonly run: Run;
  readonly terminals: Terminals;
}

export interface VerifiedProcessTree {
  readonly runId: string | null;
  /** The agent's own process is the one on record, below the anchor on record. */
  readonly verified: boolean;
  readonly why: string;
  readonly processes: LiveProcesses;
}

/** `runId`: of the session's agent; null: it has none. */
export async function verifyProcessTree(
  supervisor: Supervisor,
  runId: string | null,
): Promise<VerifiedProcessTree> {
  const unverified = (why: string): VerifiedProcessTree => ({ runId, verified: false, why, processes: [] });
  if (runId === null) return unverified("the session has no agent process");
  const record = await supervisor.getRun(runId);
  if (record === null || record.state === "exited") return unverified("the agent's process has ended");
  const run = supervisor.run(runId);
  if (run === null)
    return unverified(`instance ${record.ownerInstanceId} owns the agent's process, not this gateway`);
  const processes = await listLiveProcesses(supervisor, run);
  if (processes === null) return unverified("the processes cannot be listed now");
  const verified = processes.some(({ identity }) => isSameProcess(identity, record.root));
  const why = verified
    ? "the agent's process is the one on record, below its anchor"
    : "the agent's own process is gone; its run ends the others";
  return { runId, verified, why, processes };
}

/** Processes of the agent and its terminals. Null: they cannot be listed now. */
async function listLiveProcesses(supervisor: Supervisor, agent: Run): Promise<LiveProcesses | null> {
  const processes = await agent.members().catch(() => null);
  if (processes === null) return null;
  const terminals = await listOpenTerminals(supervisor, agent.runId);
  const runs = terminals.flatMap(({ runId }) => supervisor.run(runId) ?? []);
  // A terminal that ends just now has no processes.
  const others = await Promise.all(runs.map((run) => run.members().catch(() => [])));
  return [processes, ...others].flat();
}

const POLL_MS = 50;
/** Rounds of STOP, list and KILL. Processes left after that cannot be killed. */
const KILL_ROUNDS = 20;

/** The identities of all processes in the agent's tree. */
export async function listProcessKeys(run: Run): Promise<readonly string[]> {
  return (await listAllMembers(run)).map(({ identity: { pid, startTime } }) => `${pid}:${startTime}`);
}

/** Throws if the list is incomplete: a process missing from it would look like a new one. */
async function listAllMembers(run: Run): Promise<LiveProcesses> {
  const members = await run.members();
  const { rootPid } = run;
  // The agent is alive, so a list without its own process was made without a readable /proc.
  if (rootPid !== null && !members.some(({ identity }) => identity.pid === rootPid))
    throw new Error("the list lacks the agent's own process; /proc may be unreadable");
  if (members.length < MAX_LISTED_PROCESSES) return members;
  throw new Error(
    `the agent has ${members.length} or more processes, so new ones cannot be told from old ones`,
  );
}

/** Live processes that did not exist before, by identity. The agent's own process existed before any turn. */
async function processesStartedSince(
  run: Run,
  before: readonly string[],
): Promise<readonly LeftoverProcess[]> {
  const known = new Set(before);
  return (await listAllMembers(run))
    .filter(({ identity: { pid, startTime } }) => !known.has(`${pid}:${startTime}`) && pid !== run.rootPid)
    .map(({ identity, command }) => ({ ...identity, command: redactedExcerpt(command) }));
}

/** Processes that were started since and are still alive after `settleMs`. */
async function processesLeftSince(
  run: Run,
  before: readonly string[],
  clock: Clock,
  settleMs: number,
): Promise<readonly LeftoverProcess[]> {
  const deadline = clock.now() + settleMs;
  let left = await processesStartedSince(run, before);
  while (left.length > 0 && clock.now() < deadline) {
    await clock.sleep(POLL_MS);
    left = await processesStartedSince(run, before);
  }
  return left;
}

/**
 * Ends the processes that were started since; the agent and older processes stay. TERM first; then SIGSTOP until no new
 * process appears, and SIGKILL. Returns the survivors.
 */
async function killStartedSince(
  run: Run,
  before: readonly string[],
  clock: Clock,
  graceMs: number,
): Promise<readonly LeftoverProcess[]> {
  let left = await processesStartedSince(run, before);
  await run.signal(left, "SIGTERM");
  await run.signal(left, "SIGCONT");
  for (let waited = 0; left.length > 0 && waited < graceMs; waited += POLL_MS) {
    await clock.sleep(POLL_MS);
    left = await processesStartedSince(run, before);
  }
  for (let round = 0; left.length > 0 && round < KILL_ROUNDS; round++) {
    await run.signal(await suspendStartedSince(run, before, left), "SIGKILL");
    await clock.sleep(POLL_MS);
    left = await processesStartedSince(run, before);
  }
  return left;
}

async function suspendStartedSince(
  run: Run,
  before: readonly string[],
  seen: readonly LeftoverProcess[],
): Promise<readonly LeftoverProcess[]> {
  let all = seen;
  for (let count = -1; all.length > count;) {
    count = all.length;
    await run.signal(all, "SIGSTOP");
    all = await processesStartedSince(run, before);
  }
  return all;
}

/**
 * The audit of a turn whose agent has just answered, if the turn left no process and nothing has to be ended: it can be
 * stored with the turn's end. Null: the turn is audited after its end. Waits for at most `limits.auditMs`.
 */
export async function auditIfClean(
  { writer, clock, limits }: TurnAuditDeps,
  { run, terminals }: AgentProcesses,
  { turnId, before, cancel }: Pick<RunningTurn, "turnId" | "before" | "cancel">,
): Promise<TurnAudit | null> {
  if (run.state !== "running" || before === null || cancel !== null || writer.row.reap === "always")
    return null;
  const isClean = async (): Promise<boolean> =>
    (await terminals.liveProcessesOf(turnId)).length === 0 &&
    (await processesStartedSince(run, before)).length === 0;
  const listed = isClean().catch(() => false);
  const clean = await within(clock, limits.auditMs, listed);
  if (clean !== true || run.state !== "running") return null;
  return { at: clock.wall(), left: [], reaped: false, survivors: [], unknown: null };
}

/** Null: the result did not arrive in time. */
async function within<Result>(clock: Clock, ms: number, work: Promise<Result>): Promise<Result | null> {
  const late = deferred<null>();
  const timer = clock.setTimer(ms, () => late.resolve(null));
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    timer.cancel();
  }
}

interface TurnAuditDeps {
  readonly writer: SessionWriter;
  readonly clock: Clock;
  readonly limits: AcpLimits;
}

/**
 * Reports the processes that a turn left, and ends them if that was requested or is the session's policy. If the tree
 * could not be listed, the audit says so instead of reporting none.
 */
export async function auditTurn(
  { writer, clock, limits }: TurnAuditDeps,
  { run, terminals }: AgentProcesses,
  { turnId, before, cancel }: Pick<RunningTurn, "turnId" | "before" | "cancel">,
): Promise<void> {
  // The run ends with the agent, and its record has the rest.
  if (run.state !== "running") return;
  const { reap } = writer.row;
  const shouldReap = reap === "always" || (cancel !== null && (cancel.reapTools || reap === "cancel"));
  let left: readonly LeftoverProcess[] = [];
  let survivors: readonly LeftoverProcess[] = [];
  let [reaped, unknown]: [boolean, string | null] = [false, null];
  try {
    const inTerminals = await terminals.liveProcessesOf(turnId);
    survivors = left = inTerminals;
    if (shouldReap) await terminals.stopTurn(turnId);
    if (before === null) throw new Error("the agent's processes could not be listed when the turn began");
    // The processes of a cancelled turn have already had time to end, and the requester waits for the audit.
    const settleMs = cancel === null ? limits.settleMs : 0;
    survivors = left = [...(await processesLeftSince(run, before, clock, settleMs)), ...inTerminals];
    if (shouldReap)
      survivors = [
        ...(await killStartedSince(run, before, clock, limits.toolGraceMs)),
        ...(await terminals.liveProcessesOf(turnId)),
      ];
    reaped = shouldReap;
  } catch (error) {
    unknown = errorMessage(error);
  }
  if (run.state !== "running") return;
  const at = clock.wall();
  const audit: TurnAudit = { at, left, reaped, survivors, unknown };
  await writer.commit(() => ({
    turns: [{ turnId, from: "ended", set: { audit } }],
    updates: [{ turnId, at, type: "audit", data: audit }],
  }));
}
