import type { z } from "zod";
import type { ParsedRequestOf, ResponseOf, Verb } from "./contract.js";
import { BadInput } from "../errors.js";
import type { Requester } from "../sessions/requester.js";

/** The reason with which `disconnected` aborts when the gateway, not the caller, closes the connection. */
export const GATEWAY_STOPPING = "the gateway stops";

/** What a handler knows about a request beside its input. */
export interface RequestContext {
  readonly requester: Requester;
  /** Aborts when the connection is closed. */
  readonly disconnected: AbortSignal;
  /** The request comes from another gateway, so it is not forwarded again. */
  readonly fromPeer?: boolean;
  /** Runs `work` when admission control allows the requester more work: after a long wait, and for each page of a stream. */
  readonly enqueue: <Result>(work: () => Promise<Result>) => Promise<Result>;
  /** Counts an open stream of the requester until it is disposed. Throws TooManyStreams. */
  readonly countStream: () => Disposable;
}

export type RouteHandlers = {
  readonly [V in Verb]: (input: ParsedRequestOf<V>, context: RequestContext) => Promise<ResponseOf<V>>;
};

export function validateInput<Shape extends z.ZodType>(
  shape: Shape,
  value: unknown,
  where: string,
): z.output<Shape> {
  const parsed = shape.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const field = issue?.path.join(".") ?? "";
  throw new BadInput(
    field === "" ? where : field,
    `${where} is invalid${field === "" ? "" : `: ${field}`}: ${issue?.message ?? "it does not match the schema"}; nothing was done`,
  );
}

/** Drops properties with the value undefined, as exactOptionalPropertyTypes requires. */
export function omitUndefined<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}
