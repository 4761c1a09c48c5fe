import { z } from "zod";
import { defaults } from "../../defaults.js";
import { isRunId } from "../../model/ids.js";
import { labelProblem } from "../../supervisor/check-options.js";
import { endpoints } from "../endpoints.js";
import type { ErrorCode } from "../error-response.js";
import { defineRoute } from "../route.js";
import { port, readinessSchema, readyTimeoutMs } from "./runs.js";
import { outputPiece, recordPending, runSchema } from "./schemas.js";
import { notifyFields } from "./tasks.js";

const labels = z.record(z.string(), z.string()).superRefine((value, context) => {
  const message = labelProblem(value);
  if (message !== null) context.addIssue({ code: "custom", message });
});
const variables = z
  .record(
    z.string().regex(/^[^=\0]+$/, "is not a variable name"),
    z.string().refine((value) => !value.includes("\0"), "must be text without NUL"),
  )
  .meta({ id: "Environment", description: "Environment variables by name." });
const boundedString = (text: string): z.ZodString => z.string().min(1, text).max(4_096);

export const execFields = {
  argv: z.array(z.string()).min(1).max(1_000_000).optional(),
  /** Passed unchanged to `shell -c`, on a PTY. */
  command: z.string().min(1).max(131_072).optional(),
  shell: boundedString("is empty").optional(),
  pty: z.boolean().default(false),
  /** If no PTY is available, run with pipes instead of failing; the record then says `pipe`. Not with `runId`. */
  ptyFallback: z.boolean().default(false),
  /** The whole environment. Default: the gateway's; for a session, its cleaned part (docs/reference/exec-rules.md). */
  environment: variables.optional(),
  /** Variables to set in addition. */
  env: variables.default({}),
  allowEnv: z.array(z.string()).max(64).default([]),
  cwd: boundedString("is empty").optional(),
  umask: z.int().min(0).max(0o777).optional(),
  labels: labels.default({}),
  sessionKey: boundedString("is empty").optional(),
  agentId: boundedString("is empty").optional(),
  kind: z.enum(["task", "service"]).default("task"),
  /** Port of a service. Unless `background` is set, wait until a process of the run listens there; otherwise stop the run. */
  port: port.optional(),
  readyTimeoutMs,
  onEscape: z.enum(["fail", "sweep"]).optional(),
  /** Default of this and the next two: the gateway's configuration. */
  timeoutMs: z.number().min(0).optional(),
  noOutputTimeoutMs: z.number().min(0).optional(),
  graceMs: z.number().min(0).max(86_400_000).optional(),
  /** Resource limits. The run fails with `limit-unavailable` if a limit cannot be set on this host. */
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
  /** The whole standard input. */
  input: z.string().max(1_048_576).optional(),
  rows: z.int().min(1).max(1_000).optional(),
  cols: z.int().min(1).max(2_000).optional(),
  /**
   * The run belongs to the caller, which attaches at once. `bufferBytes` of each stream wait for the caller, only the
   * caller writes to its input, and the run is cancelled when the caller disconnects. The response does not wait.
   */
  foreground: z.strictObject({ bufferBytes: z.int().min(1).max(Number.MAX_SAFE_INTEGER) }).optional(),
  /** Chosen by the caller, so that it can find the run if the response is lost. */
  runId: z
    .string()
    .refine((text) => isRunId(text), "is not a run id")
    .optional(),
  /** Respond at once; the run continues. */
  background: z.boolean().default(false),
  /** Wait this long for the end, then respond; the run continues. */
  yieldMs: z.number().min(10).max(120_000).optional(),
  ...notifyFields,
  /** Also return the unchanged bytes of the output. */
  raw: z.boolean().default(false),
  /** The number of newest characters of each stream to return, counted in the unchanged text. */
  maxChars: z.int().min(0).max(1_000_000).default(defaults.execOutputChars),
};

/** Has exactly one of `argv` and `command`. */
export const execBody = z
  .strictObject(execFields)
  .refine(({ argv, command }) => (argv === undefined) !== (command === undefined), {
    message: "give either argv or command (for a shell, on a PTY)",
    path: ["argv"],
  })
  .refine(({ foreground, input }) => foreground === undefined || input === undefined, {
    message: "only the caller writes to the input of a foreground run: attach, then send the input",
    path: ["input"],
  })
  .refine(({ runId, ptyFallback }) => runId === undefined || !ptyFallback, {
    message: "the fallback without a PTY is another run with its own id: give either runId or ptyFallback",
    path: ["ptyFallback"],
  });

/** Why an ended run did not succeed. Null: it succeeded, or it has not ended. */
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

export const EXEC_ERRORS: readonly ErrorCode[] = [
  "EXEC_DENIED",
  "RUN_EXISTS",
  "SESSION_TAKEN",
  "SPAWN_FAILED",
  "LIMIT_UNAVAILABLE",
  "TOO_MANY_APPROVALS",
  "SESSION_STORAGE_FULL",
];

export const execRoute = defineRoute({
  ...endpoints.exec,
  summary: "Run a command and wait for its end, or for a time",
  errors: EXEC_ERRORS,
  audience: "session",
  body: execBody,
  response: z.object({
    run: runSchema,
    recordPending,
    /** The run continues in the background. */
    running: z.boolean(),
    failure: failureKind,
    output: z.array(outputPiece),
    /** The run has pipes because no PTY was available. */
    ptyFellBack: z.boolean(),
    /** Null: the request did not wait for readiness. */
    readiness: readinessSchema.nullable(),
  }),
});
