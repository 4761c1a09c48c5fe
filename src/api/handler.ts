import type { z } from "zod";
import type { ParsedRequestOf, ResponseOf, Verb } from "./contract.js";
import { BadInput } from "../errors.js";
import type { Requester } from "../sessions/requester.js";

/** Why `gone` aborts when it was not the caller who hung up. */
export const GATEWAY_STOPPING = "the gateway stops";

/** What a handler gets beside the question. `gone` aborts when the caller has left. */
export interface RequestContext {
  readonly requester: Requester;
  readonly disconnected: AbortSignal;
  /** The request comes from another gateway, so it is not forwarded again. */
  readonly fromPeer?: boolean;
  /** Does work when it is the requester's turn. For work after a long wait, and for each page of a stream. */
  readonly enqueue: <Result>(work: () => Promise<Result>) => Promise<Result>;
  /** Counts a stream of the requester until it is disposed of. Throws TooManyStreams. */
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
    `${where} cannot be used${field === "" ? "" : `: ${field}`}: ${issue?.message ?? "it is not as agreed"}; nothing was done`,
  );
}

/** What was left out is not there, rather than undefined. */
export function omitUndefined<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}
