import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { randomBytes } from "node:crypto";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { type LiveProcess, readProcess } from "../../support/live-processes.js";
import type { Random } from "../../simulation/random.js";
import type { World } from "../world/world.js";

export const WORK_KINDS = ["run", "PTY", "service", "turn", "task"] as const;
export type WorkKind = (typeof WORK_KINDS)[number];

/** How a work ended, as far as it was told. */
export interface WorkEnd {
  readonly reason: string;
  readonly code: number | null;
  readonly output: Buffer;
  /** The product says that output is missing. */
  readonly declaredShort: boolean;
}

/** The ends that a work may have, given the faults that met it. */
export interface Allowance {
  /** End reasons besides the command's own end. */
  readonly reasons?: readonly string[];
  /** Its output may be incomplete. */
  readonly short?: boolean;
}

/** A piece of background or foreground work whose output and end are known in advance. */
export abstract class Work {
  abstract readonly kind: WorkKind;
  readonly world: World;
  readonly token: string;
  readonly exitCode: number;
  /** The faults that met it. */
  readonly faults: string[] = [];
  /** The response to its start, if that failed. */
  refusal: string | null = null;
  started: Promise<void> = Promise.resolve();
  protected readonly before: Buffer;
  protected readonly after: Buffer;
  readonly #reasons = new Set<string>();
  #short = false;
  #gate: number | null = null;

  constructor(world: World, random: Random, token: string, mostBytes = 1_500_000) {
    this.world = world;
    this.token = token;
    this.exitCode = random.between(0, 99);
    this.before = randomOutput(random, mostBytes);
    this.after = randomOutput(random, mostBytes);
  }

  protected abstract start(): Promise<void>;
  /** Waits for its end. Null: it never began. */
  abstract end(): Promise<WorkEnd | null>;
  abstract get runId(): string | null;

  begin(): void {
    this.prepare();
    this.started = this.start().catch((error: unknown) => {
      this.refusal = error instanceof Error ? error.message : String(error);
    });
  }

  /** Lets it go on to its end. */
  release(): void {
    if (this.#gate !== null) writeSync(this.#gate, "go\n");
  }

  allow({ reasons = [], short = false }: Allowance): void {
    for (const reason of reasons) this.#reasons.add(reason);
    this.#short ||= short;
  }

  /** Its run was asked to end, and has a moment to do so. */
  allowStop(): void {
    this.allow({ reasons: ["manual-cancel", "signal"], short: true });
  }

  get expected(): Buffer {
    return Buffer.concat([this.before, this.after]);
  }

  /** The problems of its end; empty: none. */
  problemsOf({ reason, code, output, declaredShort }: WorkEnd): string[] {
    const problems: string[] = [];
    // A fault may prevent its start; then nothing of it was executed.
    if (reason === "spawn-error" && this.faults.length > 0 && this.executions().length === 0) return [];
    if (reason === "exit") {
      if (code !== this.exitCode) problems.push(`wrong end: code ${code} instead of ${this.exitCode}`);
    } else if (!this.#reasons.has(reason))
      problems.push(`wrong end: ${reason} instead of exit ${this.exitCode}`);
    const { expected } = this;
    const whole = output.length === expected.length;
    if (!output.equals(expected.subarray(0, output.length)) && !declaredShort)
      problems.push(
        `wrong bytes: ${output.length} of ${expected.length}, first difference at ${differenceOf(output, expected)}`,
      );
    else if (!whole && !this.#short && !declaredShort)
      problems.push(`wrong bytes: ${output.length} of ${expected.length}, and nothing says so`);
    return problems;
  }

  protected get file(): (name: string) => string {
    return (name) => join(this.world.files, `${this.token}.${name}`);
  }

  protected prepare(): void {
    writeFileSync(this.file("a"), this.before);
    writeFileSync(this.file("b"), this.after);
    execFileSync("mkfifo", [this.file("gate")]);
    this.#gate = openSync(this.file("gate"), constants.O_RDWR | constants.O_NONBLOCK);
  }

  /** Two processes besides its leader, one of them in a session of its own. */
  protected get argv(): string[] {
    const script =
      'echo "$HOLDFAST_RUN_ID $$" >>"$1"; setsid sleep 3600 & sleep 3600 & cat "$2"; read line <"$3"; cat "$4"; exit "$5"';
    const file = this.file;
    return [
      "/bin/sh",
      "-c",
      script,
      "sh",
      file("started"),
      file("a"),
      file("gate"),
      file("b"),
      String(this.exitCode),
    ];
  }

  protected get variables(): Record<string, string> {
    return { SOAK_WORK: this.token };
  }

  /** The ids of the runs that executed its first instruction, with the leader's pid. */
  executions(): readonly { readonly runId: string; readonly pid: number }[] {
    if (!existsSync(this.file("started"))) return [];
    return readFileSync(this.file("started"), "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => {
        const [runId = "", pid] = line.split(" ");
        return { runId, pid: Number(pid) };
      });
  }

  leader(): LiveProcess | null {
    const pid = this.executions().at(-1)?.pid;
    const found = pid === undefined ? null : readProcess(pid);
    return found !== null && found.argv.includes(this.file("started")) ? found : null;
  }

  anchor(): LiveProcess | null {
    const leader = this.leader();
    const parent = leader === null ? null : readProcess(leader.parentPid);
    return parent !== null && parent.argv[0] === "holdfast-anchor" ? parent : null;
  }

  get runDirectory(): string | null {
    const { runId } = this;
    return runId === null ? null : join(this.world.instanceDirectory, "runs", runId);
  }

  tidy(): void {
    if (this.#gate !== null) closeSync(this.#gate);
    this.#gate = null;
    for (const name of ["a", "b", "gate", "started"]) rmSync(this.file(name), { force: true });
  }
}

/** Mostly small, because a fault is as likely in a small one; some larger than a pipe, few larger than a page of a log. */
function randomOutput(random: Random, mostBytes: number): Buffer {
  const kinds = { small: 6_000, medium: 200_000, large: mostBytes };
  const size = random.below(Math.min(mostBytes, kinds[random.weighted({ small: 65, medium: 30, large: 5 })]));
  // Lines, because one kind of work is a terminal.
  const text = randomBytes(Math.ceil(size * 0.75))
    .toString("base64")
    .replaceAll(/.{60}/g, "$&\n");
  return Buffer.from(`${text}\n`);
}

function differenceOf(one: Buffer, other: Buffer): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  return at;
}
