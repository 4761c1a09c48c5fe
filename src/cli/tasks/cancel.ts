import { namesOf } from "../acp/ending.js";
import { say } from "../complain.js";
import { exitCodes } from "../exit-code.js";
import { toJson } from "../json.js";
import { report } from "../operator/cancel.js";
import { stopCode } from "../process/act.js";
import { print } from "../runs/print.js";
import { findTask } from "../stop/find-targets.js";
import { sayRemark, StopPath, survivorsOf, type Stopped } from "../stop/stop.js";
import type { AnswerOf } from "../../gateway/contract/contract.js";
import { named } from "./named.js";
import { statusOfTask, type Task } from "./status.js";

type Answer = AnswerOf<"cancelTask">;

/** Until what does it is proven to be gone, or its agent's turn is over. */
export async function cancelTask(wanted: string, json: boolean): Promise<number> {
  const params = named(wanted);
  let task: Task | null = null;
  const stopped = await new StopPath(null).stop<Answer>({
    graceMs: null,
    ask: ({ client }, signal) => client.cancelTask({ params }, signal),
    settled: ({ outcome, survivors }) => outcome !== "going-on" || survivors.length > 0,
    find: async (observatory) => {
      const found = await findTask(observatory, wanted);
      task = found.task;
      return found.runs;
    },
  });
  return stopped.through === "gateway" ? told(stopped.answer, json) : direct(wanted, task, stopped, json);
}

function told(answer: Answer, json: boolean): number {
  const { task, outcome, survivors } = answer;
  if (json) print(toJson(answer));
  else if (outcome === "cancelled") print(`${task.taskId} is cancelled\n`);
  else if (outcome === "ended-before") print(`${task.taskId} had ended before: ${statusOfTask(task)}\n`);
  else {
    const left = survivors.length === 0 ? "" : `, and these would not go: ${namesOf(survivors)}`;
    say(`${task.taskId} was told to stop, and has not yet${left}`, "yellow");
  }
  return outcome === "going-on" ? exitCodes.incomplete : 0;
}

/** Its runs were stopped; what that means for the task is for the next gateway to record. */
function direct(
  wanted: string,
  task: Task | null,
  { runs, remark }: Extract<Stopped<Answer>, { through: "direct" }>,
  json: boolean,
): number {
  const codes = runs.map(({ outcome }) => stopCode(outcome.outcome));
  const code = Math.max(0, ...codes);
  if (json) {
    const outcome = code === 0 ? (runs.length === 0 ? "ended-before" : "stopped") : "going-on";
    print(toJson({ task, outcome, survivors: survivorsOf(runs), through: "direct", runs: runs.map(brief) }));
  } else if (runs.length === 0 && task !== null)
    print(`${task.taskId} had ended before: ${statusOfTask(task)}\n`);
  else {
    for (const { runId, outcome } of runs) report(runId, outcome);
    if (code === 0) print(`nothing of ${task?.taskId ?? wanted} runs any more\n`);
  }
  sayRemark(remark);
  return code;
}

function brief({ runId, outcome }: { readonly runId: string; readonly outcome: object }): object {
  return { runId, ...outcome };
}
