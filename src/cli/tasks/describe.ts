import { sanitizeLine, sanitizeText } from "../../output/sanitize.js";
import { formatDuration } from "../duration.js";
import type { Palette } from "../palette.js";
import { aboutExit, aboutProcesses, fields, time, type Field } from "../runs/describe.js";
import { taskEventText } from "./event-text.js";
import type { Output, Shown } from "./show.js";
import { statusColour, statusOfTask, targetText, type Task } from "./status.js";

/** Everything about a task, for a person. */
export function describeTask(
  { task, events, messages, run, processes, output }: Shown,
  now: number,
  palette: Palette,
): string[] {
  const section = (title: string, lines: readonly string[]): string[] =>
    lines.length === 0 ? [] : ["", palette.bold(title), ...lines.map((line) => `  ${line}`)];
  const status = statusColour(task, palette)(statusOfTask(task));
  return [
    `${palette.bold(task.taskId)}  ${status}  ${sanitizeLine(task.label)}`,
    ...section("task", fields(aboutTask(task, now))),
    ...section("asked for", task.text === task.label ? [] : linesOf(task.text)),
    ...section("error", task.error === null ? [] : linesOf(task.error)),
    ...section("result", task.summary === null ? [] : linesOf(task.summary)),
    ...section("told", aboutTold(task, messages)),
    ...(run === null
      ? []
      : section(
          "run",
          fields([["id", run.runId], ["command", run.command], ["state", run.state], ...aboutExit(run)]),
        )),
    ...(run === null || processes === null ? [] : section("processes", aboutProcesses(run, processes))),
    ...section("output", output === null || run === null ? [] : aboutOutput(output, run.runId)),
    ...section(
      "history",
      events.map((event) =>
        `${time(event.at)}  ${event.type.padEnd(9)}  ${sanitizeLine(taskEventText(event))}`.trimEnd(),
      ),
    ),
  ];
}

function aboutTask(task: Task, now: number): readonly Field[] {
  const { startedAt, endedAt, lastEventAt, cleanupAfter, heartbeatMs } = task;
  return [
    ["runtime", task.kind === null ? task.runtime : `${task.runtime}, ${task.kind}`],
    ["asked by", task.ownerSessionId ?? "the operator"],
    ["done by", task.childSessionId],
    ["agent", task.agentId],
    ["turn", task.turnId],
    ["part of", task.parentTaskId],
    ["created", time(task.createdAt)],
    ["started", startedAt === null ? null : time(startedAt)],
    ["last heard of", endedAt === null ? time(lastEventAt) : null],
    ["ended", endedAt === null ? null : time(endedAt)],
    [
      endedAt === null ? "going on for" : "took",
      startedAt === null ? null : formatDuration(Math.max(0, (endedAt ?? now) - startedAt)),
    ],
    ["progress", endedAt === null ? task.progress : null],
    ["heartbeat", heartbeatMs === null ? null : `every ${formatDuration(heartbeatMs)}`],
    ["kept until", cleanupAfter === null ? null : time(cleanupAfter)],
  ];
}

function aboutTold(task: Task, messages: Shown["messages"]): readonly string[] {
  const { policy, targets, delivery } = task;
  const whom = targets.length === 0 ? "nobody" : targets.map(targetText).join(", ");
  return [
    ...fields([
      ["policy", policy],
      ["whom", whom],
      ["delivery", delivery],
    ]),
    ...messages.map(messageText),
  ];
}

function messageText(message: Shown["messages"][number]): string {
  const { id, status, target, attempts, error, receipt, settledAt } = message;
  const tries = `${attempts} ${attempts === 1 ? "attempt" : "attempts"}`;
  const settled = settledAt === null ? "" : ` at ${time(settledAt)}`;
  const proof = receipt === null ? "" : ` (receipt ${receipt})`;
  const why = error === null ? "" : `: ${error}`;
  return sanitizeLine(`${id}  ${status}${settled}, ${targetText(target)}, ${tries}${proof}${why}`);
}

function aboutOutput({ stdout, stderr, why }: Output, runId: string): readonly string[] {
  if (why !== null) return [sanitizeLine(`not to be read here: ${why}`)];
  const lines = [...linesOf(stdout), ...linesOf(stderr)];
  return lines.length === 0 ? [] : [...lines, `(the end of it; all: holdfast logs ${runId})`];
}

function linesOf(text: string): string[] {
  const clean = sanitizeText(text).trimEnd();
  return clean === "" ? [] : clean.split("\n");
}
