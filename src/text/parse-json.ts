/**
 * Checks on JSON that another program wrote. By hand: an end is read for every run, and these few
 * shapes do not justify loading a schema library on the way to a one-millisecond spawn.
 */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Something in the JSON is not as agreed. Never leaves the module that parses. */
export class UnexpectedJson extends Error {}

/** Null when the text is no JSON, or `read` finds it misshapen. */
export function parseJson<T>(text: string, read: (value: unknown) => T): T | null {
  try {
    return read(JSON.parse(text));
  } catch (error) {
    if (error instanceof UnexpectedJson || error instanceof SyntaxError) return null;
    throw error;
  }
}

export function asObject(value: unknown): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new UnexpectedJson("object");
  return value as JsonObject;
}

export function asArray(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new UnexpectedJson("array");
  return value;
}

/** From 0 up. */
export function asWholeNumber(value: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw new UnexpectedJson("whole number");
  return value as number;
}

export function asString(value: unknown): string {
  if (typeof value !== "string") throw new UnexpectedJson("string");
  return value;
}

export function asBoolean(value: unknown): boolean {
  if (typeof value !== "boolean") throw new UnexpectedJson("boolean");
  return value;
}

export function asOneOf<const T extends string>(allowed: readonly T[], value: unknown): T {
  const found = allowed.find((item) => item === value);
  if (found === undefined) throw new UnexpectedJson(allowed.join(" | "));
  return found;
}

export function asNullable<T>(read: (value: unknown) => T, value: unknown): T | null {
  return value === null || value === undefined ? null : read(value);
}
