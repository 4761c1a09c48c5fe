/**
 * The result of one check. `warn`: it works with a weaker guarantee, or will soon fail. `bad`: something cannot work.
 */
export interface Check {
  readonly name: string;
  readonly state: "ok" | "warn" | "bad";
  readonly detail: string;
  /** The advice to the operator. */
  readonly remedy: string | null;
}

type NewCheck = (name: string, detail: string, remedy?: string | null) => Check;

const check =
  (state: Check["state"]): NewCheck =>
  (name, detail, remedy = null) => ({ name, state, detail, remedy });

export const ok = check("ok");
export const warn = check("warn");
export const bad = check("bad");
