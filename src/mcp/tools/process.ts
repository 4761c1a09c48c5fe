import { z } from "zod";
import { defaults } from "../../defaults.js";
import { failureKindOf } from "../../queries/runs.js";
import { outputText, outputView, runView, stateText, viewOutput, viewRun } from "../run-view.js";
import { defineTool, requireArguments, type ToolAnswer, type ToolCall } from "../tool.js";

const input = z.strictObject({
  action: z.enum(["list", "poll", "log", "screen", "write", "keys", "submit", "kill"]),
  runId: z.string().max(63).nullish().describe("for every action but list"),
  text: z
    .string()
    .max(1_048_576)
    .nullish()
    .describe("write: bytes for stdin, unchanged. submit: a line; Enter is pressed after it"),
  closeInput: z.boolean().nullish().describe("write: close stdin afterwards"),
  keys: z
    .array(z.string().max(4_096))
    .min(1)
    .max(1_000)
    .nullish()
    .describe("keys: names as in tmux (Enter, Up, Escape, C-c, M-x) or single characters"),
  waitMs: z
    .int()
    .min(0)
    .max(30_000)
    .nullish()
    .describe("poll: how long to wait for new output or the end. Default 0"),
  stdoutOffset: z.int().min(0).nullish().describe("poll: nextOffset of the stdout that you have. Default 0"),
  stderrOffset: z.int().min(0).nullish().describe("poll: the same for stderr"),
  stream: z
    .enum(["stdout", "stderr"])
    .nullish()
    .describe("log: default stdout. On a terminal all output is stdout"),
  offset: z.int().min(0).nullish().describe("log: read on from this byte. Default: the newest lines"),
  lines: z.int().min(1).max(10_000).nullish().describe("log: the number of newest lines. Default 200"),
  all: z.boolean().nullish().describe("list: also runs that have ended"),
  cursor: z.string().max(200).nullish().describe("list: nextCursor of the page before"),
});

const output = z.object({
  runs: z.array(runView).optional(),
  nextCursor: z.string().nullable().optional().describe("null: the last page"),
  run: runView.optional(),
  stdout: outputView.optional(),
  stderr: outputView.optional(),
  waitsForInput: z.boolean().optional().describe("the program seems to wait for input"),
  log: outputView.extend({ stream: z.string(), ended: z.boolean() }).optional(),
  screen: z
    .object({ text: z.string(), cursorRow: z.int(), cursorColumn: z.int(), title: z.string() })
    .optional(),
  outcome: z.string().optional().describe("kill: gone, ended-before, survivors, unknown or handed-over"),
  survivors: z.array(z.object({ pid: z.int(), command: z.string() })).optional(),
});

type Given = z.output<typeof input>;
type Answer = ToolAnswer & { readonly data: z.input<typeof output> };

const PAGE = 50;

export const processTool = defineTool({
  name: "process",
  title: "Read and control running commands",
  description:
    "Commands that were started with exec, by their runId. list: the running ones. poll: new output since your offsets, " +
    "and whether it waits for input. log: a page of output. screen: what a terminal shows. write: stdin. " +
    "keys, submit: type into a terminal. kill: stop it with everything that it started.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  input,
  output,
  run: (given, call) => actions[given.action](given, call),
});

const actions: Readonly<Record<Given["action"], (given: Given, call: ToolCall) => Promise<Answer>>> = {
  list: async ({ all, cursor }, { client, signal }) => {
    const query = {
      limit: PAGE,
      ...(all === true ? { all: "1" as const } : {}),
      ...(typeof cursor === "string" ? { cursor } : {}),
    };
    const { runs, next } = await client.listRuns({ query }, signal);
    const lines = runs.map((run) => `${run.runId}  ${viewRun(run).state}  ${run.command}`);
    const more = next === null ? "" : `\n[there are older ones: list with cursor ${next}]`;
    return {
      text: (lines.length === 0 ? "no commands are running" : lines.join("\n")) + more,
      data: { runs: runs.map(viewRun), nextCursor: next },
    };
  },

  poll: async (given, { client, signal }) => {
    requireArguments("process", "poll", given, "runId");
    const query = {
      stdout: given.stdoutOffset ?? 0,
      stderr: given.stderrOffset ?? 0,
      waitMs: given.waitMs ?? 0,
      maxChars: defaults.mcpOutputChars,
    };
    const found = await client.poll({ params: { runId: given.runId }, query }, signal);
    const { run } = found;
    const stdout = viewOutput(found.output, "stdout");
    const stderr = viewOutput(found.output, "stderr");
    const waits = found.waitingForInput.seems ? "; it seems to wait for input" : "";
    const state = `[${stateText(run, failureKindOf(run))}${waits}; stdout continues at ${stdout.nextOffset}, stderr at ${stderr.nextOffset}]`;
    return {
      text: [outputText(run.runId, stdout, stderr), state].filter((part) => part !== "").join("\n"),
      data: { run: viewRun(run), stdout, stderr, waitsForInput: found.waitingForInput.seems },
    };
  },

  log: async (given, { client, signal }) => {
    requireArguments("process", "log", given, "runId");
    const { offset, lines, stream } = given;
    const page =
      typeof offset === "number" ? { offset, maxBytes: defaults.mcpOutputChars } : { lines: lines ?? 200 };
    const query = { stream: stream ?? ("stdout" as const), ...page };
    const piece = await client.log({ params: { runId: given.runId }, query }, signal);
    const { text, nextOffset, skipped, ended } = piece;
    const from = Math.max(0, piece.offset - skipped);
    const before =
      skipped === 0 ? "" : `[${skipped} bytes before this are left out; offset ${from} reads them]\n`;
    const after = ended ? "[end of output]" : `[more may follow at offset ${nextOffset}]`;
    const log = {
      stream: piece.stream,
      text,
      offset: piece.offset,
      nextOffset,
      leftOutBytes: skipped,
      ended,
    };
    return { text: `${before}${text.replace(/\n$/, "")}\n${after}`, data: { log } };
  },

  screen: async (given, { client, signal }) => {
    requireArguments("process", "screen", given, "runId");
    const { rows, cursor, title } = await client.screen({ params: { runId: given.runId } }, signal);
    const text = rows
      .map((row) => row.trimEnd())
      .join("\n")
      .trimEnd();
    return {
      text: `${text}\n[cursor in row ${cursor.y + 1}, column ${cursor.x + 1}]`,
      data: { screen: { text, cursorRow: cursor.y + 1, cursorColumn: cursor.x + 1, title } },
    };
  },

  write: async (given, { client, signal }) => {
    const close = given.closeInput === true;
    if (close) requireArguments("process", "write", given, "runId");
    else requireArguments("process", "write", given, "runId", "text");
    const { runId, text } = given;
    const body = { close, ...(typeof text === "string" ? { text } : {}) };
    await client.write({ params: { runId }, body }, signal);
    return done(
      `written to the input of ${runId}${close ? ", which is closed now" : ""}; process poll shows what it answers`,
    );
  },

  keys: async (given, { client, signal }) => {
    requireArguments("process", "keys", given, "runId", "keys");
    await client.sendKeys({ params: { runId: given.runId }, body: { keys: [...given.keys] } }, signal);
    return done(`sent to ${given.runId}; process screen or poll shows what happens`);
  },

  submit: async (given, { client, signal }) => {
    requireArguments("process", "submit", given, "runId", "text");
    const { runId, text } = given;
    await client.paste({ params: { runId }, body: { text, submit: true } }, signal);
    return done(`typed into ${runId}; process poll or screen shows what it answers`);
  },

  kill: async (given, { client, signal }) => {
    requireArguments("process", "kill", given, "runId");
    const { outcome, survivors, run } = await client.kill(
      { params: { runId: given.runId }, body: {} },
      signal,
    );
    const left = survivors.map(({ pid, command }) => ({ pid, command }));
    return {
      text: `${given.runId}: ${killText(outcome, left.length)}`,
      data: { run: viewRun(run), outcome, survivors: left },
      failed: outcome === "survivors" || outcome === "unknown",
    };
  },
};

function done(text: string): Answer {
  return { text, data: {} };
}

export function killText(outcome: string, survivors: number): string {
  switch (outcome) {
    case "gone":
      return "stopped; every process of it is gone";
    case "ended-before":
      return "had already ended; nothing was done";
    case "survivors":
      return `${survivors} processes could not be ended; they are listed in survivors`;
    case "handed-over":
      return "the stop was handed over to the gateway of its host; process poll shows when it has ended";
    default:
      return "no answer from its anchor, so its end is not proven; call kill again";
  }
}
