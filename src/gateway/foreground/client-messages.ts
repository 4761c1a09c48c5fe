import { z } from "zod";
import type { Run } from "../../supervisor/api.js";
import type { AttachClientMessage } from "../../api/attach-frames.js";
import { stream } from "../../api/routes/common.js";
import { contract } from "../../api/contract.js";
import { validateInput } from "../../api/handler.js";
import type { Requester } from "../../sessions/requester.js";

const actorName = z
  .string()
  .max(200)
  .refine((text) => !text.includes("\0"), "must be text without NUL");

const clientMessageSchema = z.discriminatedUnion("type", [
  contract.resize.body.extend({ type: z.literal("resize") }),
  z.strictObject({ type: z.literal("eof") }),
  z.strictObject({
    type: z.literal("stop"),
    graceMs: z.number().min(0).max(600_000).optional(),
    actor: actorName.optional(),
  }),
  z.strictObject({ type: z.literal("ack"), stream: stream, offset: z.int().min(0) }),
]) satisfies z.ZodType<AttachClientMessage>;

/** Messages of viewers and callers. */
export function parseClientMessage(data: Buffer): AttachClientMessage {
  return validateInput(clientMessageSchema, JSON.parse(data.toString("utf8")), "the message");
}

export function stopRunFor(
  run: Run,
  requester: Requester,
  { graceMs, actor }: Extract<AttachClientMessage, { type: "stop" }>,
): Promise<void> {
  return run.cancel({
    actor: resolveActor(requester, actor),
    ...(graceMs === undefined ? {} : { graceMs }),
  });
}

/** The actor of a stop. The operator may name one; for a session it is the session. */
export function resolveActor({ kind, actor }: Requester, word: string | undefined): string {
  if (word === undefined || word === "") return actor;
  return kind === "operator" ? word : `${actor} (${word})`;
}
