import { rm, truncate, writeFile } from "node:fs/promises";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { RecoveryFixture, type GatewayRun } from "../../support/cli/recovery-fixture.js";
import { scaled, soak } from "../../support/scale.js";
import { processState } from "../../support/supervisor/silent-anchor.js";
import { waitFor } from "../../support/wait-for.js";

const agent = fileURLToPath(new URL("../../support/agents/programs/scripted-agent.mjs", import.meta.url));

/** The bound of a stopping command, plus the time in which a loaded machine starts several of them. */
const BOUND_MS = 20_000 + 10_000;

/** A tree with a process in a session of its own. */
const TREE = ["sh", "-c", "setsid sleep 7101 & sleep 7102 & echo up; wait"];

type Exec = (more?: object) => Promise<string>;

/** A command line that stops a run, and that run. */
interface Stop {
  readonly argv: readonly string[];
  readonly runId: string;
}

const agentArgv = [process.execPath, agent];

/** Each way to stop a run: starts one and returns the command. */
const STOPS: readonly ((client: GatewayClient, exec: Exec, home: string) => Promise<Stop>)[] = [
  ...[
    ["process", "kill"],
    ["process", "remove"],
    ["runs", "cancel"],
  ].map((words) => async (_client: GatewayClient, exec: Exec) => {
    const runId = await exec();
    return { argv: [...words, runId], runId };
  }),
  async (_client, exec) => {
    const runId = await exec({ kind: "service" });
    return { argv: ["service", "stop", runId], runId };
  },
  async (client, exec) => {
    const runId = await exec();
    const { tasks } = await client.listTasks();
    const task = tasks.find((one) => one.runId === runId)?.taskId ?? "";
    return { argv: ["tasks", "cancel", task], runId };
  },
  ...(
    [
      [{ labels: { ticket: "42" } }, "--label", "ticket=42"],
      [{ agentId: "codex" }, "--agent", "codex"],
      [{ sessionKey: "chat-7" }, "--session", "chat-7"],
    ] as const
  ).map(([more, ...scope]) => async (_client: GatewayClient, exec: Exec) => ({
    argv: ["runs", "cleanup", ...scope, "--yes"],
    runId: await exec(more),
  })),
  async (client, _exec, home) => {
    const { session } = await client.acpSpawn({ body: { argv: agentArgv, cwd: home, key: "ada" } });
    return { argv: ["acp", "close", "ada"], runId: session.runId ?? "" };
  },
  async (client, _exec, home) => {
    const prompt = JSON.stringify([{ wait: join(home, "never") }]);
    const body = { argv: agentArgv, cwd: home, key: "bob", mode: "run" as const, prompt, background: true };
    const { session, turn } = await client.acpSpawn({ body });
    const { task } = await client.getTask({ params: { id: turn?.turnId ?? "" } });
    return { argv: ["tasks", "cancel", task.taskId], runId: session.runId ?? "" };
  },
];

/** Each of them has runs that the commands of the others do not mean. */
const FAULTS_TOGETHER = 5;

/** A gateway, and runs with the commands that stop them. */
class Work {
  readonly fixture: RecoveryFixture;
  readonly gateway: GatewayRun;
  readonly #stops: readonly Stop[];

  private constructor(fixture: RecoveryFixture, gateway: GatewayRun, stops: readonly Stop[]) {
    this.fixture = fixture;
    this.gateway = gateway;
    this.#stops = stops;
  }

  /** All commands in a soak run; otherwise every fifth, so that each fault meets two and each command two faults. */
  static async begin(fixture: RecoveryFixture, gateway: GatewayRun, fault: number): Promise<Work> {
    const token = (await readOperatorToken(fixture.home)) ?? "";
    const client = createClient({ socketPath: gatewaySocketPath(fixture.home), token });
    const exec: Exec = async (more = {}) => {
      const body = { argv: TREE, background: true, graceMs: 500, ...more };
      return (await client.exec({ body })).run.runId;
    };
    const stops: Stop[] = [];
    for (const start of STOPS.filter((_, at) => soak || at % FAULTS_TOGETHER === fault))
      stops.push(await start(client, exec, fixture.home));
    for (const { runId } of stops)
      await waitFor(`${runId} has started`, async () => (await fixture.membersOf(runId)).length > 0);
    return new Work(fixture, gateway, stops);
  }

  get anchors(): Promise<readonly number[]> {
    return Promise.all(
      this.#stops.map(async ({ runId }) => (await this.fixture.record(runId)).anchor?.pid ?? 0),
    );
  }

  /** Each command ends its tree within its bound and exits with 0. */
  async stopsAll(): Promise<void> {
    const done = await Promise.all(
      this.#stops.map(async ({ argv, runId }) => {
        const began = performance.now();
        const { code, stdout, stderr } = await this.fixture.holdfast(...argv);
        const tookMs = performance.now() - began;
        const left = await this.fixture.membersOf(runId);
        return { argv, code, left, late: tookMs > scaled(BOUND_MS), said: `${stdout}${stderr}`, tookMs };
      }),
    );
    const failed = done.filter(({ code, left, late }) => code !== 0 || left.length > 0 || late);
    expect(failed, JSON.stringify(failed)).toEqual([]);
    for (const { said } of done) expect(said).not.toMatch(/\bat .*:\d+:\d+|undefined|\[object/);
  }
}

type Fault = readonly [name: string, during: (work: Work, stops: () => Promise<void>) => Promise<void>];

/** The gateway lives; the last fault is not undone. */
const faultsBesideGateway: readonly Fault[] = [
  [
    "the gateway SIGSTOPped",
    async ({ gateway }, stops) => {
      process.kill(gateway.pid, "SIGSTOP");
      await waitFor("it is stopped", () => processState(gateway.pid) === "T");
      await stops();
      process.kill(gateway.pid, "SIGCONT");
    },
  ],
  [
    "the store locked",
    async ({ fixture }, stops) => {
      using holder = lockedStore(fixture, "begin exclusive");
      await stops();
      holder.exec("rollback");
    },
  ],
  [
    "every anchor SIGSTOPped",
    async (work, stops) => {
      for (const pid of await work.anchors) process.kill(pid, "SIGSTOP");
      await stops();
    },
  ],
  [
    "the store corrupt",
    async ({ fixture }, stops) => {
      fixture.sql("pragma wal_checkpoint(truncate)");
      await truncate(fixture.store, 5_000);
      await stops();
    },
  ],
];

/** The first fault kills the gateway; the last ones are not undone. */
const faultsWithoutGateway: readonly Fault[] = [
  ["the gateway killed", (_, stops) => stops()],
  [
    "the gateway killed and the store locked against reading",
    async ({ fixture }, stops) => {
      const lock =
        "pragma locking_mode = exclusive; begin exclusive; update runs set updated_at = updated_at";
      using holder = lockedStore(fixture, lock);
      await stops();
      holder.exec("rollback");
    },
  ],
  [
    "the gateway killed and every anchor SIGSTOPped",
    async (work, stops) => {
      for (const pid of await work.anchors) process.kill(pid, "SIGSTOP");
      await stops();
    },
  ],
  [
    "the gateway killed and the store missing",
    async ({ fixture }, stops) => {
      for (const name of readdirSync(fixture.home))
        if (name.startsWith("store.sqlite")) await rm(join(fixture.home, name));
      await stops();
    },
  ],
  [
    "the gateway killed and the store corrupt",
    async ({ fixture }, stops) => {
      for (const rest of ["-wal", "-shm"]) await rm(`${fixture.store}${rest}`, { force: true });
      await writeFile(fixture.store, "garbage".repeat(3_000));
      await stops();
    },
  ],
];

function lockedStore({ store }: RecoveryFixture, statements: string): InstanceType<typeof DatabaseSync> {
  // Another process may be writing at this moment.
  const holder = new DatabaseSync(store, { timeout: 15_000 });
  holder.exec(statements);
  return holder;
}

/** In a soak run each fault has a gateway of its own, because it meets every command. */
const together = (faults: readonly Fault[]): readonly (readonly Fault[])[] =>
  soak ? faults.map((fault) => [fault]) : [faults];

describe.concurrent("a stopping command ends its tree within its bound", () => {
  for (const withGateway of [true, false])
    for (const faults of together(withGateway ? faultsBesideGateway : faultsWithoutGateway))
      test(`with ${faults.map(([name]) => name).join("; with ")}`, async () => {
        await using fixture = await RecoveryFixture.open();
        const gateway = await fixture.gateway();
        const works: Work[] = [];
        for (const at of faults.keys()) works.push(await Work.begin(fixture, gateway, at));
        if (!withGateway) await gateway.kill();
        for (const [at, [, during]] of faults.entries()) {
          const work = works[at] ?? expect.fail("no work");
          await during(work, () => work.stopsAll());
        }
        await gateway.kill();
      });

  test("with the disk full", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("16m");
    await using fixture = await RecoveryFixture.open(disk.path);
    const gateway = await fixture.gateway();
    const work = await Work.begin(fixture, gateway, FAULTS_TOGETHER - 1);
    const filler = join(disk.path, "..", "filler");
    await writeFile(filler, Buffer.alloc(64 * 1024 * 1024)).catch(() => {});
    await work.stopsAll();
    await rm(filler);
    await gateway.kill();
  });
});
