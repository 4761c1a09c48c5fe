/**
 * The result of one check. `warn`: it works with a weaker guarantee, or will soon fail. `bad`: something cannot work.
 */
export interface Check {
  readonly name: string;
  readonly state: "ok" | "warn" | "bad";
  readonly detail: string;
  /** What to do about it. */
  readonly remedy: string | null;
}

export function ok(name: string, detail: string): Check {
  return { name, state: "ok", detail, remedy: null };
}

export function warn(name: string, detail: string, remedy: string | null = null): Check {
  return { name, state: "warn", detail, remedy };
}

export function bad(name: string, detail: string, remedy: string | null = null): Check {
  return { name, state: "bad", detail, remedy };
}
