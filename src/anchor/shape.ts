/**
 * Checks on JSON that another program wrote. By hand: an end is read for every run, and these few
 * shapes do not justify loading a schema library on the way to a one-millisecond spawn.
 */
export type Facts = Readonly<Record<string, unknown>>;

/** Something in the JSON is not as agreed. Never leaves the module that parses. */
export class Misshapen extends Error {}

/** Null when the text is no JSON, or `read` finds it misshapen. */
export function parseShape<T>(text: string, read: (value: unknown) => T): T | null {
  try {
    return read(JSON.parse(text));
  } catch (error) {
    if (error instanceof Misshapen || error instanceof SyntaxError) return null;
    throw error;
  }
}

export function record(value: unknown): Facts {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Misshapen("object");
  return value as Facts;
}

export function array(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new Misshapen("array");
  return value;
}

/** From 0 up. */
export function whole(value: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw new Misshapen("whole number");
  return value as number;
}

export function string(value: unknown): string {
  if (typeof value !== "string") throw new Misshapen("string");
  return value;
}

export function boolean(value: unknown): boolean {
  if (typeof value !== "boolean") throw new Misshapen("boolean");
  return value;
}

export function oneOf<const T extends string>(allowed: readonly T[], value: unknown): T {
  const found = allowed.find((item) => item === value);
  if (found === undefined) throw new Misshapen(allowed.join(" | "));
  return found;
}

export function nullable<T>(read: (value: unknown) => T, value: unknown): T | null {
  return value === null || value === undefined ? null : read(value);
}
