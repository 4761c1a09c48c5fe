import type { LiveProcesses } from "../anchor/members.js";
import { PROCESSES_NAMED } from "../anchor/protocol.js";
import { defaults } from "../defaults.js";
import type { LeftProcess } from "../store/acp-record.js";
import type { Run } from "../supervisor/api.js";
import type { Clock } from "../supervisor/clock.js";
import { excerpt } from "./wire/excerpt.js";

/** Looks at a tree that is asked to go. */
const LOOK_MS = 50;
/** Rounds of STOP, look and KILL: whoever is left then does not die of signals. */
const KILL_ROUNDS = 20;

/** Everybody in an agent's tree, by identity. */
export async function whoLives(run: Run): Promise<readonly string[]> {
  return (await everybody(run)).map(({ identity: { pid, startTime } }) => `${pid}:${startTime}`);
}

/** Who is not named could be taken for one who was not there. */
async function everybody(run: Run): Promise<LiveProcesses> {
  const members = await run.members();
  if (members.length < PROCESSES_NAMED) return members;
  throw new Error(`its agent has ${members.length} processes or more: who was there before cannot be told`);
}

/** Who lives and did not before: told by identity, never by a name. The agent's own process was there before any turn. */
export async function bornSince(run: Run, before: readonly string[]): Promise<readonly LeftProcess[]> {
  const known = new Set(before);
  return (await everybody(run))
    .filter(({ identity: { pid, startTime } }) => !known.has(`${pid}:${startTime}`) && pid !== run.rootPid)
    .map(({ identity, command }) => ({ ...identity, command: excerpt(command) }));
}

/**
 * End who was born since; the agent and what it had before go on. TERM first; then they are stopped until nobody new
 * appears, and killed. Returns who is left.
 */
export async function endBornSince(
  run: Run,
  before: readonly string[],
  clock: Clock,
  graceMs: number = defaults.acpToolGraceMs,
): Promise<readonly LeftProcess[]> {
  let left = await bornSince(run, before);
  await run.signal(left, "SIGTERM");
  await run.signal(left, "SIGCONT");
  for (let waited = 0; left.length > 0 && waited < graceMs; waited += LOOK_MS) {
    await clock.pause(LOOK_MS);
    left = await bornSince(run, before);
  }
  for (let round = 0; left.length > 0 && round < KILL_ROUNDS; round++) {
    await run.signal(await stopped(run, before, left), "SIGKILL");
    await clock.pause(LOOK_MS);
    left = await bornSince(run, before);
  }
  return left;
}

async function stopped(
  run: Run,
  before: readonly string[],
  seen: readonly LeftProcess[],
): Promise<readonly LeftProcess[]> {
  let all = seen;
  for (let count = -1; all.length > count;) {
    count = all.length;
    await run.signal(all, "SIGSTOP");
    all = await bornSince(run, before);
  }
  return all;
}
