import { z } from "zod";
import { defaults } from "../../defaults.js";
import { isRunId } from "../../model/ids.js";
import { labelProblem } from "../../supervisor/run/options.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { emptyObject, outputPiece, recordPending } from "./common.js";
import { runSchema } from "./runs.js";
import { port, readinessSchema, readyTimeoutMs } from "./services.js";
import { notifyFields } from "./tasks.js";

const labels = z.record(z.string(), z.string()).superRefine((value, context) => {
  const message = labelProblem(value);
  if (message !== null) context.addIssue({ code: "custom", message });
});
const variables = z.record(
  z.string().regex(/^[^=\0]+$/, "cannot be a variable's name"),
  z.string().refine((value) => !value.includes("\0"), "must be text without NUL"),
);
const boundedString = (text: string): z.ZodString => z.string().min(1, text).max(4_096);

export const execFields = {
  argv: z.array(z.string()).min(1).max(1_000_000).optional(),
  /** Verbatim to `shell -c`, on a PTY. */
  command: z.string().min(1).max(131_072).optional(),
  shell: boundedString("is empty").optional(),
  pty: z.boolean().default(false),
  /** Without a PTY to be had, run with pipes instead of failing; the record then says `pipe`. Not with `runId`. */
  ptyFallback: z.boolean().default(false),
  /** The whole environment. Default: the gateway's; for a run of a session, the clean part of it (docs/reference/exec-rules.md). */
  environment: variables.optional(),
  /** On top of it. */
  env: variables.default({}),
  allowEnv: z.array(z.string()).max(64).default([]),
  cwd: boundedString("is empty").optional(),
  umask: z.int().min(0).max(0o777).optional(),
  labels: labels.default({}),
  sessionKey: boundedString("is empty").optional(),
  agentId: boundedString("is empty").optional(),
  kind: z.enum(["task", "service"]).default("task"),
  /** Of a service: unless in the background, wait until one of its own processes listens there; stop it if none does. */
  port: port.optional(),
  readyTimeoutMs,
  onEscape: z.enum(["fail", "sweep"]).optional(),
  /** Left out, this and the next: what the gateway is configured with. */
  timeoutMs: z.number().min(0).optional(),
  noOutputTimeoutMs: z.number().min(0).optional(),
  graceMs: z.number().min(0).max(86_400_000).optional(),
  /** What it may use at most; one that cannot be set here fails the run, as `limit-unavailable`. */
  limits: z
    .strictObject({
      memoryBytes: z.number().nullable(),
      pids: z.number().nullable(),
      cpus: z.number().nullable(),
    })
    .partial()
    .optional(),
  merge: z.boolean().default(false),
  stdin: z.enum(["pipe", "null"]).default("null"),
  /** All of the input, at once. */
  input: z.string().max(1_048_576).optional(),
  rows: z.int().min(1).max(1_000).optional(),
  cols: z.int().min(1).max(2_000).optional(),
  /**
   * It belongs to the caller, who attaches as such at once: its output waits for the caller, this many bytes of each
   * stream, its input is the caller's alone, and it is cancelled when the caller is gone. Returns at once.
   */
  foreground: z.strictObject({ bufferBytes: z.int().min(1).max(Number.MAX_SAFE_INTEGER) }).optional(),
  /** Chosen by the caller, who can then ask what became of a request whose answer was lost. */
  runId: z
    .string()
    .refine((text) => isRunId(text), "cannot be the id of a run")
    .optional(),
  /** Return at once; the run goes on. */
  background: z.boolean().default(false),
  /** Wait this long for the end, then return; the run goes on. */
  yieldMs: z.number().min(10).max(120_000).optional(),
  ...notifyFields,
  /** Also answer with the unchanged bytes of the output. */
  raw: z.boolean().default(false),
  /** How many of the newest characters of each stream to answer with, counted in the unchanged text. */
  maxChars: z.int().min(0).max(1_000_000).default(defaults.execOutputChars),
};

/** What to run and how. Exactly one of `argv` and `command`. */
export const execBody = z
  .strictObject(execFields)
  .refine(({ argv, command }) => (argv === undefined) !== (command === undefined), {
    message: "say what to run: argv, or command (for a shell, on a PTY), not both",
    path: ["argv"],
  })
  .refine(({ foreground, input }) => foreground === undefined || input === undefined, {
    message: "a foreground run's input is its caller's alone: send it when attached",
    path: ["input"],
  })
  .refine(({ runId, ptyFallback }) => runId === undefined || !ptyFallback, {
    message: "what is run instead is another run, with an id of its own: say runId or ptyFallback, not both",
    path: ["ptyFallback"],
  });

/** Why a run that has ended did not succeed; null: it did, or it goes on. */
export const failureKind = z
  .enum([
    "not-found",
    "cwd-not-found",
    "not-executable",
    "spawn-error",
    "limit-unavailable",
    "overall-timeout",
    "no-output-timeout",
    "signal",
    "exit-code",
    "cancelled",
    "escape",
    "lost",
  ])
  .nullable();

export const execRoute = defineRoute({
  ...endpoints.exec,
  summary: "Run a command; wait for its end, or for a while",
  audience: "session",
  params: emptyObject,
  query: emptyObject,
  body: execBody,
  response: z.object({
    run: runSchema,
    recordPending,
    /** It goes on in the background. */
    running: z.boolean(),
    failure: failureKind,
    output: z.array(outputPiece),
    /** A PTY was asked for and could not be had. */
    ptyFellBack: z.boolean(),
    /** Null: not waited for. */
    readiness: readinessSchema.nullable(),
  }),
});
