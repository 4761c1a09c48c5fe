import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { GatewayError } from "../../../src/api/client.js";
import type { RunRecord } from "../../../src/model/run.js";
import { type LiveProcess, readProcess, signalProcess } from "../../support/live-processes.js";
import { kindOfProblem, type Problem } from "../tally.js";
import type { Work } from "../works/work.js";
import type { World } from "../world/world.js";

/** The members of a run are gone when its end is on record; init needs a moment to reap those of a dead anchor. */
const GONE_MS = 2_000;

/** Live processes with this variable in their environment. */
export function findByVariable(assignment: string): LiveProcess[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      if (!readFileSync(`/proc/${name}/environ`, "latin1").split("\0").includes(assignment)) return [];
    } catch {
      return []; // Gone meanwhile.
    }
    const one = readProcess(Number(name));
    return one === null ? [] : [one];
  });
}

/** Waits until no process has the variable, and returns those that still have. */
export async function findSurvivors(assignment: string): Promise<LiveProcess[]> {
  const deadline = performance.now() + GONE_MS;
  for (;;) {
    const left = findByVariable(assignment);
    if (left.length === 0 || performance.now() > deadline) return left;
    await sleep(20);
  }
}

/**
 * A survivor contradicts a record that says `proven`. A run whose anchor and launcher were killed may be `lost`,
 * `unproven`: its record says that processes may be left, and the soak ends them.
 */
export async function checkSurvivors(world: World, assignment: string): Promise<Problem[]> {
  const problems: Problem[] = [];
  for (const one of await findSurvivors(assignment)) {
    const runId = variableOf(one, "HOLDFAST_RUN_ID");
    const { code, said } = await world.holdfast("runs", "show", runId, "--json");
    const record = code === 0 ? (JSON.parse(said) as Pick<RunRecord, "emptiness" | "exit">) : null;
    if (record?.emptiness === "unproven" && record.exit?.reason === "lost") world.unproven.add(runId);
    else
      problems.push({
        kind: "survivors",
        what: `alive after the end of ${runId}, which is ${record?.emptiness ?? "not on record"}: ${one.pid} ${one.argv.join(" ")}`,
      });
    signalProcess(one, "SIGKILL");
  }
  return problems;
}

function variableOf({ pid }: LiveProcess, name: string): string {
  const all = readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
  return all.find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
}

export async function checkEnd(
  work: Work,
): Promise<{ readonly problems: Problem[]; readonly bytes: number }> {
  const problems: Problem[] = [];
  let bytes = 0;
  try {
    const end = await work.end();
    if (end !== null) {
      bytes = end.output.length;
      problems.push(...work.problemsOf(end).map((what) => ({ kind: kindOfProblem(what), what })));
    }
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error);
    problems.push({ kind: kindOfProblem(what), what });
  }
  problems.push(...(await checkSurvivors(work.world, `SOAK_WORK=${work.token}`)));
  return { problems, bytes };
}

/** One record and one end of each run; epochs that only grow; nothing executed without a record. */
export async function checkHistory(world: World, work: Work): Promise<Problem[]> {
  const problems: Problem[] = [];
  const executed = new Set(work.executions().map(({ runId }) => runId));
  if (executed.size > 1 || work.executions().length > executed.size)
    problems.push({ kind: "records", what: `it was executed ${work.executions().length} times` });
  for (const runId of executed) {
    const record = await world.record(runId);
    if (record === null) {
      problems.push({ kind: "records", what: `${runId} was executed and has no record` });
      continue;
    }
    const { events } = await world.ask((client) =>
      client.events({ query: { run: runId, after: 0, limit: 500 } }),
    );
    const ends = events.filter(({ type }) => type === "exit").length;
    if (ends !== 1) problems.push({ kind: "ends", what: `${runId} has ${ends} ends` });
    const epochs = events.flatMap(({ type, data }) =>
      type === "reconcile" && data["action"] !== "leave" && data["process"] !== undefined
        ? [Number(data["epoch"])]
        : [],
    );
    if (epochs.some((epoch, at) => at > 0 && epoch <= (epochs[at - 1] ?? 0)))
      problems.push({ kind: "ends", what: `the epochs of ${runId} do not grow: ${epochs.join(", ")}` });
    if (record.emptiness !== "proven" && record.exit?.reason !== "lost")
      problems.push({ kind: "ends", what: `${runId} ended ${record.exit?.reason}, ${record.emptiness}` });
  }
  return problems;
}

/** Reads everything about a run that has ended, and compares its record and events. */
export async function checkReading(world: World, runId: string): Promise<Problem[]> {
  const look = async (): Promise<unknown> => [
    await world.record(runId),
    (await world.ask((client) => client.events({ query: { run: runId, after: 0, limit: 500 } }))).events,
  ];
  const before = await look();
  await world.ask(async (client) => {
    const params = { runId };
    await client.listRuns({ query: { all: "1", limit: 100 } });
    await client.viewRuns({ query: { all: "1", processes: "1", limit: 100 } });
    await client.runProcesses({ params });
    await client.log({ params });
    await client.poll({ params });
    await client.listTasks();
    await client.status();
  });
  return isDeepStrictEqual(before, await look())
    ? []
    : [{ kind: "reading", what: `reading changed ${runId}` }];
}

/** The receiver of a task got one message, under one id; a second time only as a repeat. */
export function checkReceived(world: World, taskId: string): Problem[] {
  const got = world.receiver.of(taskId).filter(({ id }) => id.startsWith("task-terminal:"));
  const problems: string[] = [];
  if (got.length === 0) problems.push("lost");
  if (new Set(got.map(({ id }) => id)).size > 1) problems.push("several ids");
  if (new Set(got.map(({ status }) => status)).size > 1) problems.push("several ends");
  if (got.slice(1).some(({ repeat }) => !repeat)) problems.push("doubled, and not marked as a repeat");
  return problems.map((what) => ({ kind: "notifications", what: `${taskId}: ${what}` }));
}

/** The task has an end, and its receiver was told this one. */
export async function checkTask(world: World, taskId: string): Promise<Problem[]> {
  // A gateway whose wall clock is a year ahead removes ended tasks, because their retention is over.
  const found = await world
    .ask((client) => client.getTask({ params: { id: taskId } }))
    .catch((error: unknown) => (error instanceof GatewayError ? null : Promise.reject(error as Error)));
  if (found === null) return [];
  const { status, endedAt } = found.task;
  if (endedAt === null) return [{ kind: "ends", what: `${taskId} has no end, it is ${status}` }];
  const told = world.receiver.of(taskId).find(({ id }) => id.startsWith("task-terminal:"))?.status;
  return told === undefined || told === status
    ? []
    : [{ kind: "notifications", what: `${taskId}: told ${told}, is ${status}` }];
}
