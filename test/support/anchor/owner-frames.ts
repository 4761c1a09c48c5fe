import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import type { RawLink } from "./raw-link.js";

export const GO = encodeMessage("go", {});
export const STATUS = encodeMessage("status", {});

/** A script that prints a line when it ignores TERM; only KILL ends it. */
export const IGNORES_TERM = "trap '' TERM; echo deaf; while :; do sleep 0.05; done";

export function stop(change: Partial<Parameters<typeof encodeMessage<"stop">>[1]> = {}): Buffer {
  return encodeMessage("stop", {
    reason: "manual-cancel",
    actor: "test",
    requestId: "",
    graceMs: null,
    ...change,
  });
}

export function policy(change: Partial<Parameters<typeof encodeMessage<"policy">>[1]>): Buffer {
  return encodeMessage("policy", {
    overallMs: null,
    noOutputMs: null,
    ownerLossMs: null,
    kind: null,
    onEscape: null,
    graceMs: null,
    ...change,
  });
}

/** Awaits EXITED and returns its JSON. */
export async function exitOf(link: RawLink): Promise<Record<string, unknown>> {
  return JSON.parse((await link.receive("exited")).json) as Record<string, unknown>;
}
