import { HoldfastError } from "../../errors.js";
import { excerpt } from "../wire/excerpt.js";
import type { Outcome } from "../wire/message.js";

export const INVALID_PARAMS = -32_602;
/** The protocol's "resource not found". */
export const NOT_THERE = -32_002;
/** It could be done, and is not. (-32000 is "authentication required" in this protocol.) */
export const REFUSED = -32_001;
const INTERNAL = -32_603;

/** What an agent is told instead of a result. */
export class Refusal extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** The result, or why there is none. */
export async function outcomeOf(work: () => Promise<unknown>): Promise<Outcome> {
  try {
    return { result: await work() };
  } catch (error) {
    return refused(error);
  }
}

export function refused(error: unknown): Outcome {
  const message = excerpt(error instanceof Error ? error.message : String(error), LONGEST_MESSAGE);
  if (error instanceof Refusal) return { error: { code: error.code, message } };
  return { error: { code: error instanceof HoldfastError ? REFUSED : INTERNAL, message } };
}

/** A sentence with a path in it. */
const LONGEST_MESSAGE = 1_000;
