import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const directory = resolve("build/soak");

/** The facts of a measurement that a reader needs to repeat it. */
export interface Origin {
  readonly seed: number;
  readonly command: string;
  readonly commit: string;
  readonly startedAt: string;
  updatedAt: string;
}

interface Saved<State extends object> {
  readonly origin: Origin;
  readonly state: State;
}

/** The state of a soak that is done in parts. It is saved after each step, so that a part can end at any time. */
export class Progress<State extends object> {
  readonly origin: Origin;
  readonly state: State;
  readonly #path: string;

  private constructor(path: string, origin: Origin, state: State) {
    this.#path = path;
    this.origin = origin;
    this.state = state;
  }

  /** Continues what was saved under this name, unless it had another seed. */
  static open<State extends object>(name: string, seed: number | null, first: () => State): Progress<State> {
    mkdirSync(directory, { recursive: true });
    const path = join(directory, `${name}.json`);
    const saved = readProgress<State>(name);
    if (saved !== null && (seed === null || saved.origin.seed === seed))
      return new Progress(path, saved.origin, saved.state);
    const now = new Date().toISOString();
    const origin = {
      seed: seed ?? 1,
      command: `npm run soak -- ${process.argv.slice(2).join(" ")}`.trim(),
      commit: commitOfCheckout(),
      startedAt: now,
      updatedAt: now,
    };
    return new Progress(path, origin, first());
  }

  save(): void {
    this.origin.updatedAt = new Date().toISOString();
    const { origin, state } = this;
    writeFileSync(`${this.#path}.new`, `${JSON.stringify({ origin, state }, null, 1)}\n`);
    renameSync(`${this.#path}.new`, this.#path);
  }
}

/** The state that was saved under this name. Null: none. */
export function readProgress<State extends object>(name: string): Saved<State> | null {
  const path = join(directory, `${name}.json`);
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Saved<State>) : null;
}

function commitOfCheckout(): string {
  try {
    const git = (...words: string[]): string =>
      execFileSync("git", words, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
    return git("rev-parse", "--short=12", "HEAD");
  } catch {
    return "unknown";
  }
}
