import { z } from "zod";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import {
  count,
  emptyObject,
  flag,
  outputPiece,
  recordPending,
  runParams,
  stream,
  survivor,
} from "./common.js";
import { runSchema } from "./runs.js";

/** News of a run: what it wrote since, whether it waits, how it ended. Waits for some, up to 30 s; consumes nothing. */
export const pollRoute = defineRoute({
  ...endpoints.poll,
  summary: "Wait for news of a run",
  audience: "session",
  params: runParams,
  query: z.strictObject({
    /** Byte offsets from which output is news; left out: everything kept. */
    stdout: count.optional(),
    stderr: count.optional(),
    waitMs: z.coerce.number().min(0).max(30_000).default(0),
    maxChars: z.coerce.number().int().min(0).max(1_000_000).default(20_000),
    /** Also answer with the unchanged bytes of the output. */
    raw: flag.optional(),
  }),
  body: emptyObject,
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
  summary: "A page of a run's output",
  audience: "session",
  params: runParams,
  query: z.strictObject({
    stream: stream.default("stdout"),
    /** In bytes; left out: by lines. */
    offset: count.optional(),
    maxBytes: z.coerce.number().int().min(1).max(1_048_576).default(65_536),
    /** Lines to pass over, from the oldest kept; left out: the newest. */
    skip: count.optional(),
    /** So many lines. */
    lines: z.coerce.number().int().min(1).max(100_000).default(200),
    raw: flag.optional(),
  }),
  body: emptyObject,
  response: outputPiece,
});

export const writeRoute = defineRoute({
  ...endpoints.write,
  summary: "Bytes for a run's input",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: z
    .strictObject({
      text: z.string().max(1_048_576).optional(),
      base64: z.base64().max(1_398_104).optional(),
      /** No more input after this. */
      close: z.boolean().default(false),
    })
    .refine(({ text, base64, close }) => close || (text === undefined) !== (base64 === undefined), {
      message: "say what to write: text or base64, or close",
      path: ["text"],
    }),
  response: emptyObject,
});

export const sendKeysRoute = defineRoute({
  ...endpoints.sendKeys,
  summary: "Press keys in a run's terminal",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: z.strictObject({ keys: z.array(z.string().max(4_096)).min(1).max(1_000) }),
  response: emptyObject,
});

export const pasteRoute = defineRoute({
  ...endpoints.paste,
  summary: "Paste text, bracketed when the program asked for it",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: z.strictObject({
    text: z.string().max(1_048_576),
    /** Press Enter afterwards. */
    submit: z.boolean().default(false),
  }),
  response: z.object({ bracketed: z.boolean() }),
});

export const resizeRoute = defineRoute({
  ...endpoints.resize,
  summary: "Change a run's terminal size",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: z.strictObject({ rows: z.int().min(1).max(1_000), cols: z.int().min(1).max(2_000) }),
  response: emptyObject,
});

export const screenRoute = defineRoute({
  ...endpoints.screen,
  summary: "What a PTY program shows now",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: emptyObject,
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
  summary: "Stop a run; answers when it is gone, or with who is left",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: z.strictObject({
    graceMs: z.number().min(0).max(600_000).optional(),
    /** Recorded with who asked. */
    reason: z
      .string()
      .min(1)
      .max(200)
      .refine((text) => !text.includes("\0"), "must be text without NUL")
      .optional(),
    /** Of a run elsewhere: how long to wait for its gateway to take it up. */
    waitMs: z.number().min(0).max(60_000).optional(),
    /** Chosen by the caller: said again, it is the same request. */
    requestId: z
      .string()
      .regex(/^[\w.:-]{1,64}$/, "must be up to 64 of letters, digits, _ . : and -")
      .optional(),
  }),
  response: z.object({
    /** `handed-over`: its host has not carried it out yet, and will when its gateway is there. */
    outcome: z.enum(["gone", "ended-before", "survivors", "unknown", "handed-over"]),
    survivors: z.array(survivor),
    /** Of a run of another host or state directory: who was to stop it. Null: it was done here. */
    command: z
      .object({
        id: z.string(),
        instanceId: z.string(),
        hostId: z.string(),
        hostName: z.string(),
        /** When its gateway was last heard of; null: never. */
        lastHeardAt: z.number().nullable(),
        /** Whether it has taken it up. */
        accepted: z.boolean(),
        error: z.string().nullable(),
      })
      .nullable(),
    run: runSchema,
  }),
});

export const heartbeatRoute = defineRoute({
  ...endpoints.heartbeat,
  summary: "Vouch that a silent run is making progress",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: emptyObject,
  response: emptyObject,
});

export const removeRoute = defineRoute({
  ...endpoints.remove,
  summary: "Hide a run; stop it if it is running",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: emptyObject,
  /** Its record stays; while it is being stopped it is open, and hidden. */
  response: z.object({ runId: z.string(), stopping: z.boolean() }),
});

export const clearRoute = defineRoute({
  ...endpoints.clear,
  summary: "Hide every ended run of the one who asks",
  audience: "session",
  params: emptyObject,
  query: emptyObject,
  body: z.strictObject({}),
  response: z.object({ cleared: z.int() }),
});
