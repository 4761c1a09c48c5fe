import { randomInt } from "node:crypto";
import type { ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { isSame, living, signal, until, type Living } from "./living.js";
import type { Seat } from "./seat.js";

export const scenario = fileURLToPath(new URL("children/scenario.sh", import.meta.url));

export type Role = "leader" | "plain" | "deaf" | "session" | "daemon";
const NUMBERS: Readonly<Record<string, Role>> = {
  "100001": "plain",
  "100002": "deaf",
  "100003": "session",
  "100004": "daemon",
};

/** A number nobody else on this machine sleeps for. */
export function newToken(): string {
  return String(randomInt(10 ** 9, 10 ** 10));
}

/**
 * Everybody who carries one token. The bystander was there first: started bare, as the same user and in the same
 * cgroup as the supervisor, with the very same command lines. Whoever came later belongs to a run.
 */
export class Crowd implements AsyncDisposable {
  readonly token: string;
  readonly #bystander: ChildProcess;
  #bystanders: readonly Living[] = [];

  private constructor(token: string, bystander: ChildProcess) {
    this.token = token;
    this.#bystander = bystander;
  }

  /** With the whole scenario as bystander. */
  static async ofScenario(seat: Seat): Promise<Crowd> {
    const token = newToken();
    return Crowd.of(seat, token, ["sh", scenario, token], (crowd) => crowd.cast(crowd.everybody()) !== null);
  }

  /** With one sleeper as bystander. */
  static async ofSleeper(seat: Seat, token = newToken()): Promise<Crowd> {
    return Crowd.of(seat, token, ["sleep", `100000.${token}`], (crowd) =>
      crowd.everybody().some(({ argv }) => argv[0] === "sleep"),
    );
  }

  static async of(
    seat: Seat,
    token: string,
    argv: readonly string[],
    complete: (crowd: Crowd) => boolean,
  ): Promise<Crowd> {
    const crowd = new Crowd(token, seat.spawn(argv, "ignore"));
    try {
      await until("the bystander is complete", () => complete(crowd));
      crowd.#bystanders = crowd.everybody();
      return crowd;
    } catch (error) {
      await crowd[Symbol.asyncDispose]();
      throw error;
    }
  }

  everybody(): Living[] {
    return living(this.token);
  }

  /** All but the bystander. */
  others(): Living[] {
    return this.everybody().filter((one) => !this.#bystanders.some((known) => isSame(known, one)));
  }

  /** Who plays what, once everybody is there and has become what he is to be; null before that. */
  cast(among: readonly Living[]): ReadonlyMap<Role, Living> | null {
    const roles = new Map<Role, Living>();
    for (const one of among) {
      const [command, argument] = one.argv;
      if (command === "sleep") roles.set(NUMBERS[argument?.split(".")[0] ?? ""] ?? "leader", one);
      else if (command === "sh" && argument === scenario) roles.set("leader", one);
      else return null;
    }
    return among.length === 5 && roles.size === 5 ? roles : null;
  }

  /** The run's whole scenario. */
  async complete(): Promise<ReadonlyMap<Role, Living>> {
    return until("the scenario is complete", () => this.cast(this.others()));
  }

  async gone(withinMs: number): Promise<void> {
    await until(`nobody is left`, () => this.others().length === 0, withinMs).catch(() => {
      throw new Error(`still there after ${withinMs} ms: ${this.others().map(name).join(", ")}`);
    });
  }

  /** Those of the bystander who are missing, by name. */
  missing(): string[] {
    const present = this.everybody();
    return this.#bystanders.filter((known) => !present.some((one) => isSame(known, one))).map(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // TERM-ignoring, detached and all: everybody who carries the token was started by this test.
    for (let round = 0; round < 100 && this.everybody().length > 0; round++) {
      for (const one of this.everybody()) signal(one, "SIGSTOP");
      for (const one of this.everybody()) signal(one, "SIGKILL");
      await until("they are gone", () => this.everybody().length === 0, 100).catch(() => {});
    }
    this.#bystander.stdin?.destroy();
    this.#bystander.stdout?.destroy();
  }
}

function name({ pid, argv }: Living): string {
  return `${pid} ${argv.join(" ")}`;
}
