import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { DatabaseSync } from "@photostructure/sqlite";
import type { GatewayEvent } from "../../../src/gateway/gateway.js";
import { openSqliteStoreForReading } from "../../../src/store/sqlite/open-for-reading.js";
import type { RunEvent } from "../../../src/model/run-event.js";
import type { RunRecord } from "../../../src/model/run.js";
import type { SpawnOptions } from "../../../src/supervisor/api.js";
import { CliFixture, type CliResult, type DefaultOverrides } from "./cli-fixture.js";
import { findByRunMarker } from "../live-processes.js";
import { waitFor, withTimeout } from "../wait-for.js";

const libraryPath = resolve("dist/index.js");
const leaveRuns = fileURLToPath(new URL("children/leave-runs.mjs", import.meta.url));

/** A shell script for a run. It must print something when all its processes have started. */
type RunScript = readonly [script: string, options?: SpawnOptions];

type TerminalStep = readonly [seen: string, answer: string | (() => Promise<unknown>)];

/** A shell with two children, one of them in its own process session. */
export const TWO_PROCESSES = "setsid sleep 7001 & sleep 7002 & echo up; wait";

/** A state directory for tests in which supervisors are killed and replaced; the test can change its store. */
export class RecoveryFixture extends CliFixture {
  readonly #leftRuns: string[] = [];
  readonly #gateways: GatewayRun[] = [];

  static override async open(home?: string): Promise<RecoveryFixture> {
    return new RecoveryFixture(home ?? (await mkdtemp(join(tmpdir(), "hf-"))));
  }

  get store(): string {
    return join(this.home, "store.sqlite");
  }

  /** Starts runs and kills their supervisor, a program that embeds the library. Their leases have not expired. */
  async leaveRuns(...orders: readonly RunScript[]): Promise<string[]> {
    const child = spawn(process.execPath, [leaveRuns, libraryPath, this.home, JSON.stringify(orders)], {
      stdio: ["ignore", "pipe", "inherit"],
      env: this.env,
    });
    const ended = once(child, "close");
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const line = await Promise.race([lines.next(), ended.then(() => null)]);
    if (line === null || line.done === true) throw new Error("the runs could not be started");
    const runIds = JSON.parse(line.value) as string[];
    this.#leftRuns.push(...runIds);
    child.kill("SIGKILL");
    await ended;
    return runIds;
  }

  /** The same, with expired leases. */
  async leaveOrphans(...orders: readonly RunScript[]): Promise<string[]> {
    const runIds = await this.leaveRuns(...orders);
    this.expireLeases();
    return runIds;
  }

  expireLeases(): void {
    this.sql("update runs set lease_expires_at = 0 where state <> 'exited'");
  }

  /** Through a second connection to the store. */
  sql(text: string): void {
    const db = new DatabaseSync(this.store, { timeout: 5_000 });
    try {
      db.exec(text);
    } finally {
      db.close();
    }
  }

  /** Starts `holdfast gateway run`, and waits until it has reconciled once. */
  async gateway(env: NodeJS.ProcessEnv = {}, numbers?: DefaultOverrides): Promise<GatewayRun> {
    const withDefaults: Pick<CliFixture, "startWith"> = {
      startWith: (more, ...args) => this.startWithDefaults(numbers ?? {}, more, ...args),
    };
    const gateway = new GatewayRun(numbers === undefined ? this : withDefaults, env);
    this.#gateways.push(gateway);
    await gateway.ready;
    return gateway;
  }

  async record(runId: string): Promise<RunRecord> {
    await using store = await openSqliteStoreForReading(this.store);
    const record = await store?.getRun(runId);
    if (record === null || record === undefined) throw new Error(`no record of ${runId}`);
    return record;
  }

  async events(runId: string): Promise<readonly RunEvent[]> {
    await using store = await openSqliteStoreForReading(this.store);
    return (await store?.listEvents({ runId })) ?? [];
  }

  /** Waits for the terminal record. */
  async waitForEnd(runId: string, withinMs = 15_000): Promise<RunRecord> {
    await waitFor(
      `${runId} has ended on record`,
      async () => (await this.record(runId)).state === "exited",
      withinMs,
    );
    return this.record(runId);
  }

  /** The pids of the processes with the marker of the run, without its anchor. */
  async membersOf(runId: string): Promise<number[]> {
    return findByRunMarker(runId).map(({ pid }) => pid);
  }

  async json<Value>(...args: readonly string[]): Promise<Value> {
    const { stdout, stderr, code } = await this.holdfast(...args, "--json");
    if (stdout === "") throw new Error(`${args.join(" ")} ended with ${code}: ${stderr}`);
    return JSON.parse(stdout) as Value;
  }

  /** Runs `holdfast` on a terminal. Each step waits for a text and sends an answer, or calls a function. */
  atTerminal(args: readonly string[], ...talk: readonly TerminalStep[]): Promise<CliResult> {
    return this.atSizedTerminal(null, args, ...talk);
  }

  async atSizedTerminal(
    size: { readonly rows: number; readonly cols: number } | null,
    args: readonly string[],
    ...talk: readonly TerminalStep[]
  ): Promise<CliResult> {
    const sized = size === null ? "" : `stty rows ${size.rows} cols ${size.cols}; `;
    const words = [process.execPath, resolve("dist/cli/main.js"), ...args].map((word) => `'${word}'`);
    const child = spawn("script", ["-qefc", `${sized}exec ${words.join(" ")}`, "/dev/null"], {
      env: { ...this.env, TERM: "xterm" },
      stdio: ["pipe", "pipe", "ignore"],
    });
    let screen = "";
    child.stdout.on("data", (text: Buffer) => (screen += text.toString()));
    // The command may end before it reads.
    child.stdin.on("error", () => undefined);
    const ended = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
    for (const [question, answer] of talk) {
      await waitFor(`the terminal shows ${question}: ${screen}`, () => screen.includes(question));
      if (typeof answer === "string") child.stdin.write(answer);
      else await answer();
    }
    const [code, signal] = await withTimeout(15_000, `${args.join(" ")} ends: ${screen}`, ended);
    return { code, signal, stdout: screen.replaceAll("\r", ""), stderr: "" };
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    for (const gateway of this.#gateways) await gateway.kill();
    // Only a failed test leaves processes.
    for (const runId of this.#leftRuns)
      if ((await this.membersOf(runId)).length > 0) await this.holdfast("runs", "cancel", runId, "--kill");
    await super[Symbol.asyncDispose]();
  }
}

export const whyNoTerminal =
  spawnSync("script", ["--version"]).status === 0 ? null : "script(1) is not installed";

/** A `holdfast gateway run --json` process and its events. */
export class GatewayRun {
  readonly pid: number;
  readonly events: GatewayEvent[] = [];
  readonly finished: Promise<CliResult>;
  /** Resolves when the gateway has reconciled once. */
  readonly ready: Promise<void>;
  readonly #kill: (signal: NodeJS.Signals) => void;
  #over = false;
  #onEvent: () => void = () => {};

  constructor(fixture: Pick<CliFixture, "startWith">, env: NodeJS.ProcessEnv) {
    const { child, finished } = fixture.startWith(env, "gateway", "run", "--json");
    this.pid = child.pid ?? 0;
    this.#kill = (signal) => child.kill(signal);
    this.finished = finished;
    void finished.then(() => {
      this.#over = true;
      this.#onEvent();
    });
    createInterface({ input: child.stdout }).on("line", (line) => {
      this.events.push(JSON.parse(line) as GatewayEvent);
      this.#onEvent();
    });
    // Many gateways may start at the same time.
    this.ready = this.waitForEvent("ready", () => true, 60_000).then(() => undefined);
  }

  /** The first such event, past or future. */
  async waitForEvent<Type extends GatewayEvent["type"]>(
    type: Type,
    matches: (event: Extract<GatewayEvent, { type: Type }>) => boolean = () => true,
    withinMs = 15_000,
  ): Promise<Extract<GatewayEvent, { type: Type }>> {
    const find = (): Extract<GatewayEvent, { type: Type }> | undefined =>
      this.events
        .filter((each): each is Extract<GatewayEvent, { type: Type }> => each.type === type)
        .find((each) => matches(each));
    await withTimeout(
      withinMs,
      `the gateway reports ${type}`,
      (async () => {
        while (find() === undefined && !this.#over) await new Promise<void>((done) => (this.#onEvent = done));
      })(),
    );
    const found = find();
    if (found === undefined) throw new Error(`the gateway ended: ${(await this.finished).stderr}`);
    return found;
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<CliResult> {
    if (!this.#over) this.#kill(signal);
    return this.finished;
  }
}

/** A FIFO at which a run waits until the test releases it. */
export class RunGate implements AsyncDisposable {
  readonly path: string;
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
    this.path = join(directory, "gate");
    spawnSync("mkfifo", [this.path]);
  }

  static async create(): Promise<RunGate> {
    return new RunGate(await mkdtemp(join(tmpdir(), "gate-")));
  }

  /** A script that prints `up`, waits, and exits with this code. */
  waitScript(code: number): string {
    return `echo up; read line <'${this.path}'; exit ${code}`;
  }

  /** Releases one waiting run. */
  async release(): Promise<void> {
    await writeFile(this.path, "go\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true });
  }
}
