import { randomInt } from "node:crypto";
import type { ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { isSameProcess, findByCommandLine, signalProcess, type LiveProcess } from "../live-processes.js";
import type { Sandbox } from "../sandbox.js";
import { waitFor } from "../wait-for.js";

export const scenarioScript = fileURLToPath(new URL("children/scenario.sh", import.meta.url));

export type ProcessRole = "leader" | "plain" | "deaf" | "session" | "daemon";
const ROLE_BY_NUMBER: Readonly<Record<string, ProcessRole>> = {
  "100001": "plain",
  "100002": "deaf",
  "100003": "session",
  "100004": "daemon",
};

/** A number that no other process on this machine has in its command line. */
function newToken(): string {
  return String(randomInt(10 ** 9, 10 ** 10));
}

/**
 * The processes with one token in their command lines. The bystander was started first, without Holdfast, as the same
 * user and in the same cgroup as the supervisor. All later processes belong to a run.
 */
export class TokenProcesses implements AsyncDisposable {
  readonly token: string;
  readonly #bystander: ChildProcess;
  #bystanders: readonly LiveProcess[] = [];

  private constructor(token: string, bystander: ChildProcess) {
    this.token = token;
    this.#bystander = bystander;
  }

  /** With the whole scenario as bystander. */
  static async withScenario(sandbox: Sandbox): Promise<TokenProcesses> {
    const token = newToken();
    return TokenProcesses.start(
      sandbox,
      token,
      ["sh", scenarioScript, token],
      (tokenProcesses) => tokenProcesses.byRole(tokenProcesses.all()) !== null,
    );
  }

  /** With one sleeper as bystander. */
  static async withSleeper(sandbox: Sandbox, token = newToken()): Promise<TokenProcesses> {
    return TokenProcesses.start(sandbox, token, ["sleep", `100000.${token}`], (tokenProcesses) =>
      tokenProcesses.all().some(({ argv }) => argv[0] === "sleep"),
    );
  }

  static async start(
    sandbox: Sandbox,
    token: string,
    argv: readonly string[],
    complete: (tokenProcesses: TokenProcesses) => boolean,
  ): Promise<TokenProcesses> {
    const tokenProcesses = new TokenProcesses(token, sandbox.spawn(argv, "ignore"));
    try {
      await waitFor("the bystander is complete", () => complete(tokenProcesses));
      tokenProcesses.#bystanders = tokenProcesses.all();
      return tokenProcesses;
    } catch (error) {
      await tokenProcesses[Symbol.asyncDispose]();
      throw error;
    }
  }

  all(): LiveProcess[] {
    return findByCommandLine(this.token);
  }

  /** All but the bystander. */
  ofRuns(): LiveProcess[] {
    return this.all().filter((one) => !this.#bystanders.some((known) => isSameProcess(known, one)));
  }

  /** The processes by role; null until all five have executed their command. */
  byRole(among: readonly LiveProcess[]): ReadonlyMap<ProcessRole, LiveProcess> | null {
    const roles = new Map<ProcessRole, LiveProcess>();
    for (const one of among) {
      const [command, argument] = one.argv;
      if (command === "sleep") roles.set(ROLE_BY_NUMBER[argument?.split(".")[0] ?? ""] ?? "leader", one);
      else if (command === "sh" && argument === scenarioScript) roles.set("leader", one);
      else return null;
    }
    return among.length === 5 && roles.size === 5 ? roles : null;
  }

  /** The run's whole scenario. */
  async waitForAllRoles(): Promise<ReadonlyMap<ProcessRole, LiveProcess>> {
    return waitFor("the scenario is complete", () => this.byRole(this.ofRuns()));
  }

  async waitUntilGone(withinMs: number): Promise<void> {
    await waitFor(`nobody is left`, () => this.ofRuns().length === 0, withinMs).catch(() => {
      throw new Error(`still there after ${withinMs} ms: ${this.ofRuns().map(describeProcess).join(", ")}`);
    });
  }

  /** Those of the bystander who are missing, by name. */
  missingBystanders(): string[] {
    const present = this.all();
    return this.#bystanders
      .filter((known) => !present.some((one) => isSameProcess(known, one)))
      .map(describeProcess);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Every process with the token was started by this test, also a detached one and one that ignores TERM.
    for (let round = 0; round < 100 && this.all().length > 0; round++) {
      for (const one of this.all()) signalProcess(one, "SIGSTOP");
      for (const one of this.all()) signalProcess(one, "SIGKILL");
      await waitFor("they are gone", () => this.all().length === 0, 100).catch(() => {});
    }
    this.#bystander.stdin?.destroy();
    this.#bystander.stdout?.destroy();
  }
}

function describeProcess({ pid, argv }: LiveProcess): string {
  return `${pid} ${argv.join(" ")}`;
}
