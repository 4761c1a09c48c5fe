import type { ResponseOf } from "../../api/contract.js";
import type { RunProcesses } from "../../supervisor/inspect/live-processes.js";
import { openReadClient, type ReadApi } from "../client/read-client.js";
import { toJson } from "../json.js";
import { paletteFor } from "../print/palette.js";
import { inspectRun } from "../runs/processes.js";
import { print } from "../print/stdout.js";
import { describeTask } from "./describe.js";
import { taskParams } from "./named.js";

/** The last lines of what a task's command wrote, or why they cannot be read here. */
export type TaskOutput =
  | { readonly stdout: string; readonly stderr: string; readonly why: null }
  | { readonly stdout: ""; readonly stderr: ""; readonly why: string };

/** A task with what does it: its processes as they are now, and the end of its output. */
export type TaskDetails = ResponseOf<"getTask"> & {
  readonly processes: RunProcesses | null;
  readonly output: TaskOutput | null;
};

export async function showTask(wanted: string, json: boolean): Promise<number> {
  await using reader = await openReadClient();
  const shown = await readTaskDetails(reader.client, wanted);
  if (json) print(toJson(shown, 2));
  else print(`${describeTask(shown, Date.now(), paletteFor(1)).join("\n")}\n`);
  return 0;
}

async function readTaskDetails(client: ReadApi, wanted: string): Promise<TaskDetails> {
  const answer = await client.getTask({ params: taskParams(wanted) });
  const { task, run } = answer;
  if (run === null) return { ...answer, processes: null, output: null };
  const { runs } = await client.listRuns({ query: { hidden: "1", limit: 1_000 } });
  const processes = await inspectRun(run, runs);
  // What an agent writes is its protocol; what it said is in its session's history.
  const output = task.turnId === null ? await lastOutput(client, run.runId) : null;
  return { ...answer, processes, output };
}

const OUTPUT_LINES = 10;

async function lastOutput({ log }: ReadApi, runId: string): Promise<TaskOutput> {
  const last = async (stream: "stdout" | "stderr"): Promise<string> =>
    (await log({ params: { runId }, query: { stream, lines: OUTPUT_LINES } })).text;
  try {
    return { stdout: await last("stdout"), stderr: await last("stderr"), why: null };
  } catch (error) {
    return { stdout: "", stderr: "", why: (error as Error).message };
  }
}
