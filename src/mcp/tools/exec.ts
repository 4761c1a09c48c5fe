import { platform } from "node:os";
import { isAbsolute, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { z } from "zod";
import type { RequestOf, ResponseOf } from "../../api/contract.js";
import { defaults } from "../../defaults.js";
import { HoldfastError } from "../../errors.js";
import { newRunId } from "../../model/ids.js";
import { failureKindOf } from "../../queries/runs.js";
import { followProgress } from "../progress.js";
import { outputText, outputView, runView, stateText, viewOutput, viewRun } from "../run-view.js";
import { findTaskOf } from "../tasks/find-task.js";
import { ArgumentsRefused, defineTool, type ToolCall } from "../tool.js";

const words = z.string().min(1);

/** How a command is given, also for services. */
export const commandFields = {
  command: words.max(131_072).nullish().describe("a command line for the shell; give either command or argv"),
  argv: z
    .array(z.string())
    .min(1)
    .max(10_000)
    .nullish()
    .describe("the program and its arguments, without a shell"),
  cwd: words.max(4_096).nullish().describe("path of the working directory"),
  env: z
    .array(z.string().regex(/^[^=]+=/, "must be NAME=value"))
    .max(1_000)
    .nullish()
    .describe("further environment variables, each NAME=value"),
};

const input = z.strictObject({
  ...commandFields,
  terminal: z
    .boolean()
    .nullish()
    .describe("run it on a terminal: for programs that prompt, REPLs and full-screen programs"),
  input: z.string().max(1_048_576).nullish().describe("the whole standard input; default: none"),
  background: z.boolean().nullish().describe("answer at once; the command continues as a task"),
  yieldMs: z
    .int()
    .min(10)
    .max(120_000)
    .nullish()
    .describe("how long to wait for the end; then the command continues as a task. Default 10000"),
  timeoutMs: z.int().min(0).nullish().describe("stop the command after this time; 0: never"),
});

const execOutput = z.object({
  run: runView,
  failure: z
    .string()
    .nullable()
    .describe("why it did not succeed: exit-code, signal, not-found, overall-timeout, cancelled, …"),
  taskId: z.string().nullable().describe("the task in which it continues; tasks wait waits for its end"),
  stdout: outputView,
  stderr: outputView,
});

export const execTool = defineTool({
  name: "exec",
  title: "Run a command",
  description:
    "Runs a command and owns every process it starts. Waits up to yieldMs for its end and returns its newest output. " +
    "A command that takes longer, or has background: true, continues as a task, also when this client ends: " +
    "use process to read and type, tasks to wait or cancel. Cancelling the call stops the command.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  input,
  output: execOutput,
  run: async (given, call) => {
    const runId = newRunId();
    const { terminal, input: stdin, background, yieldMs, timeoutMs } = given;
    const body = {
      ...commandBody(given, call, terminal === true),
      ...(stdin === undefined || stdin === null ? {} : { input: stdin }),
      ...(timeoutMs === undefined || timeoutMs === null ? {} : { timeoutMs }),
      ...(yieldMs === undefined || yieldMs === null ? {} : { yieldMs }),
      ...(terminal === true && stdin === undefined ? { stdin: "pipe" as const } : {}),
      background: background === true,
      maxChars: defaults.mcpOutputChars,
      runId,
    };
    using _ = followProgress(call, runId);
    const { answer, taskId } = await runCommand(call, body, yieldMs ?? defaults.execYieldMs);
    const { run, running, failure } = answer;
    const stdout = viewOutput(answer.output, "stdout");
    const stderr = viewOutput(answer.output, "stderr");
    const next = running
      ? `; it continues${taskId === null ? "" : ` as ${taskId}`}. ${nextStep(run.io === "pty")}`
      : "";
    return {
      text: [outputText(run.runId, stdout, stderr), `[${stateText(run, failure)}${next}]`]
        .filter((part) => part !== "")
        .join("\n"),
      data: { run: viewRun(run), failure, taskId, stdout, stderr },
      failed: failure !== null,
      taskId,
    };
  },
});

type Answer = Pick<ResponseOf<"exec">, "run" | "running" | "failure" | "output">;
type Body = Partial<RequestOf<"exec">["body"]> & { readonly runId: string };

/** Runs the command, and stops it if the call is cancelled before the answer is complete. */
async function runCommand(
  call: ToolCall,
  body: Body,
  yieldMs: number,
): Promise<{ readonly answer: Answer; readonly taskId: string | null }> {
  const { client, signal } = call;
  try {
    const answer = await client
      .exec({ body }, signal)
      .catch((cause: unknown) => waitAfterBreak(cause, call, body.runId, yieldMs));
    return { answer, taskId: answer.running ? await findTaskOf(call, answer.run.runId) : null };
  } finally {
    // The gateway stops it when the request breaks off, but not if the command became a task at that moment, or if the
    // gateway has restarted meanwhile.
    if (signal.aborted) await call.stopCancelled(body.runId);
  }
}

/** Time to wait for a gateway that restarts. */
const RESTART_MS = 15_000;
const RETRY_MS = 250;

/** Continues the wait of a call when the gateway restarts: the command continues under its anchor. */
async function waitAfterBreak(
  cause: unknown,
  { observer, signal }: ToolCall,
  runId: string,
  yieldMs: number,
): Promise<Answer> {
  const brokeAt = Date.now();
  // Another failure means that the command was not started.
  const isBroken = isUnreachable(cause) && (cause as Error).cause !== undefined;
  while (isBroken && !signal.aborted && Date.now() - brokeAt < RESTART_MS) {
    await setTimeout(RETRY_MS, undefined, { signal }).catch(() => undefined);
    try {
      for (;;) {
        const left = yieldMs - (Date.now() - brokeAt);
        const query = { maxChars: defaults.mcpOutputChars, waitMs: Math.min(Math.max(left, 0), 1_000) };
        const { run, output } = await observer.poll({ params: { runId }, query }, signal);
        const running = run.state !== "exited";
        if (!running || left <= 0) return { run, running, failure: failureKindOf(run), output };
        // Output that is there already ends the wait at once.
        await setTimeout(RETRY_MS, undefined, { signal });
      }
    } catch (failed) {
      // The command was not started before the gateway was gone.
      if (!isUnreachable(failed)) break;
    }
  }
  throw cause;
}

function isUnreachable(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === "GATEWAY_UNREACHABLE";
}

function nextStep(terminal: boolean): string {
  return terminal
    ? "process poll or screen shows its output, process submit types a line, tasks wait waits for its end"
    : "process poll shows its output, tasks wait waits for its end, process kill stops it";
}

type CommandFields = { readonly [K in keyof typeof commandFields]?: z.output<(typeof commandFields)[K]> };

/** The part of a request that says what is run, where, and in which environment. */
export function commandBody(
  { command, argv, cwd, env }: CommandFields,
  { cwd: ownCwd, environment }: Pick<ToolCall, "cwd" | "environment">,
  terminal: boolean,
): Partial<RequestOf<"exec">["body"]> {
  if ((command ?? null) !== null && (argv ?? null) !== null)
    throw new ArgumentsRefused("give either command or argv, not both. Nothing was done.");
  const given = argv ?? shellWords(command ?? null);
  if (given === null)
    throw new ArgumentsRefused("command is missing: give command (for the shell) or argv. Nothing was done.");
  const directory = resolveDirectory(cwd ?? null, ownCwd);
  return {
    argv: [...given],
    pty: terminal,
    ...(directory === null ? {} : { cwd: directory }),
    ...(environment === null ? {} : { environment: { ...environment } }),
    env: Object.fromEntries((env ?? []).map(splitVariable)),
  };
}

/** A path that the client gave; null: its own directory. A client over HTTP has none. */
export function resolveDirectory(given: string | null, own: string | null): string | null {
  if (given === null || isAbsolute(given)) return given ?? own;
  if (own === null) throw new ArgumentsRefused("cwd must be an absolute path. Nothing was done.");
  return resolve(own, given);
}

function shellWords(command: string | null): string[] | null {
  if (command === null) return null;
  return platform() === "win32" ? ["cmd.exe", "/d", "/s", "/c", command] : ["/bin/sh", "-c", command];
}

function splitVariable(text: string): [string, string] {
  const equals = text.indexOf("=");
  return [text.slice(0, equals), text.slice(equals + 1)];
}
