import { RunExists } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Supervisor } from "../../supervisor/api.js";
import { newRunId } from "../../supervisor/ids.js";
import { displayCommand, redactText } from "../../supervisor/redact.js";
import { keyOfRun } from "../../tasks/key.js";
import type { TaskInput } from "../../tasks/new-task.js";
import type { AnswerOf, HeardOf } from "../contract/contract.js";
import type { Asking } from "../server/app.js";
import { awaitedUnless, taskOf, whomToTell } from "../work/whom.js";
import { execFor } from "./exec.js";
import type { Desk, ExecIdentity } from "./handlers.js";

type ExecBody = HeardOf<"exec">["body"];

/**
 * Run a command; what goes on in the background is a task: from before it begins, where that is known or somebody is to
 * hear of it, otherwise from when its caller is sent away.
 */
export async function execInBackground(
  desk: Desk,
  body: ExecBody,
  asking: Asking,
  identity: ExecIdentity,
): Promise<AnswerOf<"exec">> {
  // A service is not meant to come to an end, and whoever runs something in the foreground is there.
  const mayGoOn = body.kind === "task" && body.foreground === undefined;
  const promised = body.background || body.notify !== undefined || body.origin !== undefined;
  if (mayGoOn && promised) {
    const runId = body.runId ?? newRunId();
    await mustBeUnused(desk.supervisor, runId);
    return desk.background.give(
      await inputOf(desk, body, asking, identity, runId),
      (going) => execFor(desk, { ...body, runId }, asking, identity, going),
      awaitedUnless(body, asking.gone),
    );
  }
  const answer = await execFor(desk, body, asking, identity);
  if (!mayGoOn || !answer.running) return answer;
  try {
    const work = await inputOf(desk, body, asking, identity, answer.run.runId);
    return await desk.background.give(work, () => Promise.resolve(answer));
  } catch {
    // It goes on all the same, and who asked is told so; the next round makes a task of it.
    desk.background.takeOver([answer.run]);
    return answer;
  }
}

/** Asked before a task is made of it: whoever has the task of a run may see that run, and end it. */
export async function mustBeUnused(
  supervisor: Pick<Supervisor, "getRun">,
  runId: string,
  isTheSame: (known: RunRecord) => boolean = () => false,
): Promise<void> {
  const known = await supervisor.getRun(runId);
  if (known !== null && !isTheSame(known)) throw new RunExists(runId);
}

async function inputOf(
  desk: Desk,
  body: ExecBody,
  asking: Asking,
  { sessionId, agentId }: ExecIdentity,
  runId: string,
): Promise<TaskInput> {
  const { requester } = asking;
  const parentSessionId = sessionId ?? null;
  const whom = whomToTell({ requester, said: body, mode: "run", parentSessionId });
  return {
    runtime: "exec",
    key: keyOfRun(runId),
    text: body.argv === undefined ? redactText(body.command ?? "") : displayCommand(body.argv),
    agentId: agentId ?? null,
    runId,
    parentTaskId: await taskOf(desk.records, requester),
    ...whom,
  };
}
