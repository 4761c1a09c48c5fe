import type { AnswerOf } from "../../gateway/contract/contract.js";
import type { RunProcesses } from "../../supervisor/live-processes.js";
import { openLook, type Looking } from "../gateway/look.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { lookAtRun } from "../runs/look-at-run.js";
import { print } from "../runs/print.js";
import { describeTask } from "./describe.js";
import { named } from "./named.js";

/** The last lines of what a task's command wrote, or why they cannot be read here. */
export type Output =
  | { readonly stdout: string; readonly stderr: string; readonly why: null }
  | { readonly stdout: ""; readonly stderr: ""; readonly why: string };

/** A task with what does it: its processes as they are now, and the end of its output. */
export type Shown = AnswerOf<"getTask"> & {
  readonly processes: RunProcesses | null;
  readonly output: Output | null;
};

export async function showTask(wanted: string, json: boolean): Promise<number> {
  await using look = await openLook();
  const shown = await all(look.client, wanted);
  if (json) print(toJson(shown, 2));
  else print(`${describeTask(shown, Date.now(), paletteFor(1)).join("\n")}\n`);
  return 0;
}

async function all(client: Looking, wanted: string): Promise<Shown> {
  const answer = await client.getTask({ params: named(wanted) });
  const { task, run } = answer;
  if (run === null) return { ...answer, processes: null, output: null };
  const { runs } = await client.listRuns({ query: { hidden: "1", limit: 1_000 } });
  const processes = await lookAtRun(run, runs);
  // What an agent writes is its protocol; what it said is in its session's history.
  const output = task.turnId === null ? await lastOutput(client, run.runId) : null;
  return { ...answer, processes, output };
}

const LINES = 10;

async function lastOutput({ log }: Looking, runId: string): Promise<Output> {
  const last = async (stream: "stdout" | "stderr"): Promise<string> =>
    (await log({ params: { runId }, query: { stream, lines: LINES } })).text;
  try {
    return { stdout: await last("stdout"), stderr: await last("stderr"), why: null };
  } catch (error) {
    return { stdout: "", stderr: "", why: (error as Error).message };
  }
}
