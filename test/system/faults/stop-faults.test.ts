import { rm, truncate, writeFile } from "node:fs/promises";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/requester.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { RecoveryFixture, type GatewayRun } from "../../support/cli/recovery-fixture.js";
import { processState } from "../../support/supervisor/silent-anchor.js";
import { waitFor } from "../../support/wait-for.js";

const agent = fileURLToPath(new URL("../../support/agents/programs/scripted-agent.mjs", import.meta.url));

/** The bound of a stopping command, and what a loaded machine needs to start nine of them at once. */
const BOUND_MS = 20_000 + 10_000;

/** A tree with a process in a session of its own. */
const TREE = ["sh", "-c", "setsid sleep 7101 & sleep 7102 & echo up; wait"];

/** A gateway and one piece of work for each command that stops something. */
class Work {
  readonly field: RecoveryFixture;
  readonly gateway: GatewayRun;
  /** By the command that stops it. */
  readonly runs = new Map<string, { readonly argv: readonly string[]; readonly runId: string }>();

  constructor(fixture: RecoveryFixture, gateway: GatewayRun) {
    this.field = fixture;
    this.gateway = gateway;
  }

  static async begin(fixture: RecoveryFixture): Promise<Work> {
    const work = new Work(fixture, await fixture.gateway());
    const token = (await readOperatorToken(fixture.home)) ?? "";
    await work.#begin(createClient({ socketPath: gatewaySocketPath(fixture.home), token }));
    return work;
  }

  async #begin(client: GatewayClient): Promise<void> {
    const exec = async (more: object): Promise<string> => {
      const body = { argv: TREE, background: true, graceMs: 500, ...more };
      return (await client.exec({ body })).run.runId;
    };
    const add = (argv: readonly string[], runId: string): void =>
      void this.runs.set(argv.slice(0, 3).join(" "), { argv, runId });
    for (const argv of [
      ["process", "kill"],
      ["process", "remove"],
      ["runs", "cancel"],
    ]) {
      const runId = await exec({});
      add([...argv, runId], runId);
    }
    const service = await exec({ kind: "service" });
    add(["service", "stop", service], service);
    const worker = await exec({});
    const { tasks } = await client.listTasks();
    const task = tasks.find(({ runId }) => runId === worker)?.taskId ?? "";
    add(["tasks", "cancel", task], worker);
    const label = await exec({ labels: { ticket: "42" } });
    add(["runs", "cleanup", "--label", "ticket=42", "--yes"], label);
    const agentId = await exec({ agentId: "codex" });
    add(["runs", "cleanup", "--agent", "codex", "--yes"], agentId);
    const session = await exec({ sessionKey: "chat-7" });
    add(["runs", "cleanup", "--session", "chat-7", "--yes"], session);
    const argv = [process.execPath, agent];
    const acp = await client.acpSpawn({ body: { argv, cwd: this.field.home, key: "ada" } });
    add(["acp", "close", "ada"], acp.session.runId ?? "");
    const prompt = JSON.stringify([{ wait: join(this.field.home, "never") }]);
    const body = { argv, cwd: this.field.home, key: "bob", mode: "run" as const, prompt, background: true };
    const { session: once, turn } = await client.acpSpawn({ body });
    const { task: turnTask } = await client.getTask({ params: { id: turn?.turnId ?? "" } });
    add(["tasks", "cancel", turnTask.taskId], once.runId ?? "");
    for (const { runId } of this.runs.values())
      await waitFor(`${runId} has begun`, async () => (await this.field.membersOf(runId)).length > 0);
  }

  get anchors(): Promise<readonly number[]> {
    return Promise.all(
      [...this.runs.values()].map(async ({ runId }) => (await this.field.record(runId)).anchor?.pid ?? 0),
    );
  }

  /** Each command ends its tree within its bound, exits with 0, and touches no other. */
  async stopsAll(): Promise<void> {
    const done = await Promise.all(
      [...this.runs].map(async ([command, { argv, runId }]) => {
        const began = performance.now();
        const { code, stdout, stderr } = await this.field.holdfast(...argv);
        const tookMs = performance.now() - began;
        const left = await this.field.membersOf(runId);
        return { command, code, left, late: tookMs > BOUND_MS, said: `${stdout}${stderr}`, tookMs };
      }),
    );
    const failed = done.filter(({ code, left, late }) => code !== 0 || left.length > 0 || late);
    expect(failed, JSON.stringify(failed)).toEqual([]);
    for (const { said } of done) expect(said).not.toMatch(/\bat .*:\d+:\d+|undefined|\[object/);
  }
}

type Fault = readonly [name: string, during: (work: Work, stops: () => Promise<void>) => Promise<void>];

const faults: readonly Fault[] = [
  [
    "the gateway SIGSTOPped",
    async ({ gateway }, stops) => {
      process.kill(gateway.pid, "SIGSTOP");
      await waitFor("it is stopped", () => processState(gateway.pid) === "T");
      await stops();
      await gateway.kill();
    },
  ],
  [
    "the gateway killed",
    async ({ gateway }, stops) => {
      await gateway.kill();
      await stops();
    },
  ],
  [
    "the store locked",
    async ({ field: fixture, gateway }, stops) => {
      const holder = new DatabaseSync(fixture.store);
      holder.exec("begin exclusive");
      await stops();
      holder.exec("rollback");
      holder.close();
      await gateway.kill();
    },
  ],
  [
    "the gateway killed and the store locked against reading",
    async ({ field: fixture, gateway }, stops) => {
      await gateway.kill();
      const holder = new DatabaseSync(fixture.store);
      holder.exec(
        "pragma locking_mode = exclusive; begin exclusive; update runs set updated_at = updated_at",
      );
      await stops();
      holder.exec("rollback");
      holder.close();
    },
  ],
  [
    "the store corrupt",
    async ({ field: fixture, gateway }, stops) => {
      fixture.sql("pragma wal_checkpoint(truncate)");
      await truncate(fixture.store, 5_000);
      await stops();
      await gateway.kill();
    },
  ],
  [
    "the gateway killed and the store corrupt",
    async ({ field: fixture, gateway }, stops) => {
      await gateway.kill();
      for (const rest of ["-wal", "-shm"]) await rm(`${fixture.store}${rest}`, { force: true });
      await writeFile(fixture.store, "garbage".repeat(3_000));
      await stops();
    },
  ],
  [
    "the gateway killed and the store missing",
    async ({ field: fixture, gateway }, stops) => {
      await gateway.kill();
      for (const name of readdirSync(fixture.home))
        if (name.startsWith("store.sqlite")) await rm(join(fixture.home, name));
      await stops();
    },
  ],
  [
    "every anchor SIGSTOPped",
    async (work, stops) => {
      for (const pid of await work.anchors) process.kill(pid, "SIGSTOP");
      await stops();
      await work.gateway.kill();
    },
  ],
  [
    "the gateway killed and every anchor SIGSTOPped",
    async (work, stops) => {
      const anchors = await work.anchors;
      await work.gateway.kill();
      for (const pid of anchors) process.kill(pid, "SIGSTOP");
      await stops();
    },
  ],
];

describe("every stopping command ends its tree within its bound", () => {
  test.each(faults)(
    "with %s",
    async (_, during) => {
      await using fixture = await RecoveryFixture.open();
      const work = await Work.begin(fixture);
      await during(work, () => work.stopsAll());
    },
    120_000,
  );

  test("with the disk full", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("16m");
    await using fixture = await RecoveryFixture.open(disk.path);
    const work = await Work.begin(fixture);
    const filler = join(disk.path, "..", "filler");
    await writeFile(filler, Buffer.alloc(64 * 1024 * 1024)).catch(() => {});
    await work.stopsAll();
    await rm(filler);
    await work.gateway.kill();
  });
});
