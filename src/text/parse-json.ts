/**
 * Checks of JSON that another program wrote. They are written by hand, because loading a schema library would slow down
 * a one-millisecond spawn.
 */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The JSON has an unexpected shape. Only the parser sees this error. */
class UnexpectedJson extends Error {}

/** Null if the text is not JSON or `read` rejects its shape. */
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

/** Accepts 0 and above. */
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
