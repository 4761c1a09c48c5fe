import { z } from "zod";
import { endpoints } from "../endpoints.js";
import type { ErrorCode } from "../error-response.js";
import { defineRoute } from "../route.js";
import {
  count,
  flag,
  outputPiece,
  recordPending,
  runParams,
  runSchema,
  stream,
  survivor,
  textWithoutNul,
} from "./schemas.js";

const STEERING_ERRORS: readonly ErrorCode[] = [
  "LEASE_LOST",
  "STALE_EPOCH",
  "NOT_STEERING",
  "STDIN_CLOSED",
  "STDIN_FULL",
];

/** Returns new output, whether the run seems to wait for input, and its end. Consumes no output. */
export const pollRoute = defineRoute({
  ...endpoints.poll,
  summary: "Wait for new output or the end of a run",
  audience: "session",
  params: runParams,
  query: z.strictObject({
    /** Byte offsets from which output is new. Default: all output that is kept. */
    stdout: count.optional(),
    stderr: count.optional(),
    waitMs: z.coerce.number().min(0).max(30_000).default(0),
    maxChars: z.coerce.number().int().min(0).max(1_000_000).default(20_000),
    /** Also return the unchanged bytes of the output. */
    raw: flag.optional(),
  }),
  response: z.object({
    run: runSchema,
    recordPending,
    output: z.array(outputPiece),
    idleMs: z.number(),
    waitingForInput: z.object({ seems: z.boolean(), because: z.string() }),
    survivors: z.array(survivor),
  }),
});

export const logRoute = defineRoute({
  ...endpoints.log,
  summary: "Read a page of the output of a run",
  audience: "session",
  params: runParams,
  query: z.strictObject({
    stream: stream.default("stdout"),
    /** Read by bytes, from this offset. Default: read by lines. */
    offset: count.optional(),
    maxBytes: z.coerce.number().int().min(1).max(1_048_576).default(65_536),
    /** Lines to skip, from the oldest line that is kept. Default: return the newest lines. */
    skip: count.optional(),
    lines: z.coerce.number().int().min(1).max(100_000).default(200),
    raw: flag.optional(),
  }),
  response: outputPiece,
});

export const writeRoute = defineRoute({
  ...endpoints.write,
  summary: "Write to the standard input of a run",
  errors: STEERING_ERRORS,
  audience: "session",
  params: runParams,
  body: z
    .strictObject({
      text: z.string().max(1_048_576).optional(),
      base64: z.base64().max(1_398_104).optional(),
      /** Close the input afterwards. */
      close: z.boolean().default(false),
    })
    .refine(({ text, base64, close }) => close || (text === undefined) !== (base64 === undefined), {
      message: "give either text or base64, or close",
      path: ["text"],
    }),
});

export const sendKeysRoute = defineRoute({
  ...endpoints.sendKeys,
  summary: "Send keys to the terminal of a run",
  errors: STEERING_ERRORS,
  audience: "session",
  params: runParams,
  body: z.strictObject({ keys: z.array(z.string().max(4_096)).min(1).max(1_000) }),
});

export const pasteRoute = defineRoute({
  ...endpoints.paste,
  summary: "Paste text into the terminal of a run, bracketed if the program enabled that",
  errors: STEERING_ERRORS,
  audience: "session",
  params: runParams,
  body: z.strictObject({
    text: z.string().max(1_048_576),
    /** Press Enter afterwards. */
    submit: z.boolean().default(false),
  }),
  response: z.object({ bracketed: z.boolean() }),
});

export const resizeRoute = defineRoute({
  ...endpoints.resize,
  summary: "Resize the terminal of a run",
  errors: STEERING_ERRORS,
  audience: "session",
  params: runParams,
  body: z.strictObject({ rows: z.int().min(1).max(1_000), cols: z.int().min(1).max(2_000) }),
});

export const screenRoute = defineRoute({
  ...endpoints.screen,
  summary: "Get the screen of a run with a terminal",
  audience: "session",
  params: runParams,
  response: z.object({
    rows: z.array(z.string()),
    cols: z.int(),
    cursor: z.object({ x: z.int(), y: z.int(), visible: z.boolean() }),
    title: z.string(),
    alternate: z.boolean(),
  }),
});

export const killRoute = defineRoute({
  ...endpoints.kill,
  summary: "Stop a run and wait until its processes are gone",
  audience: "session",
  params: runParams,
  body: z.strictObject({
    graceMs: z.number().min(0).max(600_000).optional(),
    /** Recorded with the requester. */
    reason: textWithoutNul(200).optional(),
    /** How long to wait until the gateway of another host accepts the stop. */
    waitMs: z.number().min(0).max(60_000).optional(),
    /** Idempotency key: a repeated request with the same id is the same stop. */
    requestId: z
      .string()
      .regex(/^[\w.:-]{1,64}$/, "must be up to 64 of letters, digits, _ . : and -")
      .optional(),
  }),
  response: z.object({
    /** `handed-over`: the stop is recorded, and the gateway of the run's host carries it out when it runs. */
    outcome: z.enum(["gone", "ended-before", "survivors", "unknown", "handed-over"]),
    survivors: z.array(survivor),
    /** The stop that was handed over to the gateway of another host or state directory. Null: this gateway stopped the run. */
    command: z
      .object({
        id: z.string(),
        instanceId: z.string(),
        hostId: z.string(),
        hostName: z.string(),
        /** The last heartbeat of that gateway. Null: never. */
        lastHeardAt: z.number().nullable(),
        /** The gateway has accepted the stop. */
        accepted: z.boolean(),
        error: z.string().nullable(),
      })
      .nullable(),
    run: runSchema,
  }),
});

export const heartbeatRoute = defineRoute({
  ...endpoints.heartbeat,
  summary: "Restart the deadline of a run that writes no output",
  errors: STEERING_ERRORS,
  audience: "session",
  params: runParams,
});

export const removeRoute = defineRoute({
  ...endpoints.remove,
  summary: "Remove a run; stop it first if it is running",
  audience: "session",
  params: runParams,
  /** The record stays in the store, hidden. `stopping`: the run is still being stopped. */
  response: z.object({ runId: z.string(), stopping: z.boolean() }),
});

export const clearRoute = defineRoute({
  ...endpoints.clear,
  summary: "Remove all ended runs of the requester",
  audience: "session",
  body: z.strictObject({}),
  response: z.object({ cleared: z.int() }),
});
