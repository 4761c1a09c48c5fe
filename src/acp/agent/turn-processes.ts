import type { LiveProcesses } from "../../anchor/inspect/processes.js";
import { MAX_LISTED_PROCESSES } from "../../anchor/protocol/messages.js";
import type { Clock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import type { LeftoverProcess, TurnAudit } from "../../model/acp.js";
import type { Run } from "../../supervisor/api.js";
import { redactedExcerpt } from "../../text/truncate.js";
import type { AcpLimits } from "../limits.js";
import type { SessionWriter } from "../session-writer.js";
import type { AgentProcess } from "./agent-process.js";
import type { RunningTurn } from "./turn-recorder.js";

/** Looks at a tree that is asked to go. */
const POLL_MS = 50;
/** Rounds of STOP, look and KILL: whoever is left then does not die of signals. */
const KILL_ROUNDS = 20;

/** Everybody in an agent's tree, by identity. */
export async function listProcessKeys(run: Run): Promise<readonly string[]> {
  return (await listAllMembers(run)).map(({ identity: { pid, startTime } }) => `${pid}:${startTime}`);
}

/** Who is not named could be taken for one who was not there. */
async function listAllMembers(run: Run): Promise<LiveProcesses> {
  const members = await run.members();
  if (members.length < MAX_LISTED_PROCESSES) return members;
  throw new Error(`its agent has ${members.length} processes or more: who was there before cannot be told`);
}

/** Who lives and did not before: told by identity, never by a name. The agent's own process was there before any turn. */
export async function processesStartedSince(
  run: Run,
  before: readonly string[],
): Promise<readonly LeftoverProcess[]> {
  const known = new Set(before);
  return (await listAllMembers(run))
    .filter(({ identity: { pid, startTime } }) => !known.has(`${pid}:${startTime}`) && pid !== run.rootPid)
    .map(({ identity, command }) => ({ ...identity, command: redactedExcerpt(command) }));
}

/**
 * End who was born since; the agent and what it had before go on. TERM first; then they are stopped until nobody new
 * appears, and killed. Returns who is left.
 */
export async function killStartedSince(
  run: Run,
  before: readonly string[],
  clock: Clock,
  graceMs: number = defaults.acpToolGraceMs,
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

export interface TurnAuditDeps {
  readonly writer: SessionWriter;
  readonly clock: Clock;
  readonly limits: AcpLimits;
}

/**
 * Born in the turn and alive: reported; ended where that was asked for, or is the session's policy. That nobody is left is
 * said only of a tree that was seen.
 */
export async function auditTurn(
  { writer, clock, limits }: TurnAuditDeps,
  { run, terminals }: Pick<AgentProcess, "run" | "terminals">,
  { turnId, before, cancel }: Pick<RunningTurn, "turnId" | "before" | "cancel">,
): Promise<void> {
  // With the agent everybody ends, and its run says how.
  if (run.state !== "running") return;
  const { reap } = writer.row;
  const asked = reap === "always" || (cancel !== null && (cancel.reapTools || reap === "cancel"));
  let left: readonly LeftoverProcess[] = [];
  let survivors: readonly LeftoverProcess[] = [];
  let [reaped, unknown]: [boolean, string | null] = [false, null];
  try {
    const inTerminals = await terminals.liveProcessesOf(turnId);
    survivors = left = inTerminals;
    if (asked) await terminals.stopTurn(turnId);
    if (before === null) throw new Error("its agent's processes could not be seen when it began");
    survivors = left = [...(await processesStartedSince(run, before)), ...inTerminals];
    if (asked)
      survivors = [
        ...(await killStartedSince(run, before, clock, limits.toolGraceMs)),
        ...(await terminals.liveProcessesOf(turnId)),
      ];
    reaped = asked;
  } catch (error) {
    unknown = error instanceof Error ? error.message : String(error);
  }
  if (run.state !== "running") return;
  const at = clock.wall();
  const audit: TurnAudit = { at, left, reaped, survivors, unknown };
  await writer.commit(() => ({
    turns: [{ turnId, from: "ended", set: { audit } }],
    updates: [{ turnId, at, type: "audit", data: audit }],
  }));
}
