import { existsSync } from "node:fs";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BatchCli } from "../../support/cli/batch-cli.js";
import type { CliResult } from "../../support/cli/cli-fixture.js";
import { GatewayCluster, type ClusterProcess } from "../../support/gateway/gateway-cluster.js";
import { waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { scaled } from "../../support/scale.js";
import { whyNoPostgres } from "../../support/store/postgres-server.js";
import { waitFor } from "../../support/wait-for.js";

/** Most of a command without a store is waiting. */
const AT_ONCE = 3;

/** The tests share one cluster; the last ones need no gateway. */
describe.skipIf(whyNoPostgres !== null)("with a database that cannot be read", { timeout: 120_000 }, () => {
  let cluster: GatewayCluster;
  let here: ClusterProcess;
  let lanes: readonly BatchCli[];
  beforeAll(async () => {
    cluster = await GatewayCluster.open();
    here = await cluster.spawnGateway();
    const { HOLDFAST_IN_PROCESS: _, ...env } = process.env;
    lanes = Array.from({ length: AT_ONCE }, () => new BatchCli(env));
  });
  afterAll(async () => {
    for (const lane of lanes) await lane[Symbol.asyncDispose]();
    await cluster[Symbol.asyncDispose]();
  });

  const cli = (home: string, ...args: string[]): Promise<CliResult> =>
    (lanes[0] ?? expect.fail("no lane")).holdfastWith({ HOLDFAST_HOME: home }, ...args);
  const eachAtOnce = async (
    commands: readonly (readonly string[])[],
    check: (result: CliResult, words: string) => void,
  ): Promise<void> => {
    const left = [...commands];
    const work = async (lane: BatchCli): Promise<void> => {
      for (let args = left.shift(); args !== undefined; args = left.shift())
        check(await lane.holdfastWith({ HOLDFAST_HOME: here.home }, ...args), args.join(" "));
    };
    await Promise.all(lanes.map(work));
  };
  const exec = async ({ client }: ClusterProcess, command: string): Promise<string> => {
    const { run } = await client.exec({ body: { command, background: true } });
    return run.runId;
  };
  const pidOf = async ({ client }: ClusterProcess, runId: string): Promise<number> =>
    (await client.getRun({ params: { runId } })).root?.pid ?? expect.fail("no process");
  const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}`);

  test.each(["hangs", "is stopped"])(
    "that %s, commands about runs on this host answer within a second",
    async (kind) => {
      const prompt = async (...args: string[]): Promise<CliResult> => {
        const began = performance.now();
        const done = await cli(here.home, ...args);
        const what = `${args.join(" ")}: ${done.stdout}${done.stderr}`;
        expect(performance.now() - began, what).toBeLessThan(scaled(1_000));
        return done;
      };
      const ended = await exec(here, "echo before");
      await waitForRunEnd(here.client, ended);
      const runId = await exec(here, "echo ready; read word; echo got $word; exec sleep 300");
      await here.client.poll({ params: { runId }, query: { waitMs: 10_000 } });
      const pid = await pidOf(here, runId);
      // The first command loads its modules.
      await cli(here.home, "logs", ended);
      if (kind === "hangs") cluster.server.pause();
      else await cluster.server.kill();
      try {
        // First: a gateway that cannot renew its lease stops writing after a while.
        expect(await prompt("process", "write", runId, "you\n")).toMatchObject({ code: 0 });
        await waitFor("the command answers", async () =>
          (await prompt("process", "poll", runId, "--json")).stdout.includes("got you"),
        );
        for (const name of [runId, runId.slice(0, 12)])
          expect(await prompt("logs", name)).toMatchObject({
            code: 0,
            stdout: expect.stringMatching(/^ready\n(?:you\n)?got you\n$/) as string,
          });
        expect((await prompt("logs", ended)).stdout).toBe("before\n");
        const status = await prompt("gateway", "status");
        expect(status.code).toBe(0);
        expect(status.stdout).toMatch(/database|store/);
        const listed = await prompt("ps");
        expect(listed.stdout).toContain(runId);
        expect(listed.stderr).toContain("this host");
        expect((await prompt("process", "list")).stdout).toContain(runId);
        expect((await prompt("runs", "show", runId)).stdout).toContain(runId);
        expect(isAlive(pid)).toBe(true);
        expect(await prompt("runs", "cancel", runId)).toMatchObject({ code: 0 });
        expect(isAlive(pid)).toBe(false);
      } finally {
        if (kind === "hangs") cluster.server.resume();
        else await cluster.server.start();
      }
      await waitFor(
        "the end is on record",
        async () => (await here.client.getRun({ params: { runId } })).state === "exited",
        20_000,
      );
    },
  );

  test("a run of another host is stopped through the gateway there", async () => {
    const there = await cluster.spawnGateway();
    const [first, second, third] = [
      await exec(there, "exec sleep 300"),
      await exec(there, "exec sleep 300"),
      await exec(there, "exec sleep 300"),
    ];
    const pids = await Promise.all([first, second, third].map((runId) => pidOf(there, runId)));
    // Each knows the other.
    for (const { home } of [here, there])
      await waitFor("the peers are known", () => existsSync(`${home}/peers.json`), 20_000);
    cluster.server.pause();
    try {
      const stopped = await cli(here.home, "runs", "cancel", first);
      expect(stopped).toMatchObject({
        code: 0,
        stdout: expect.stringContaining(`${first} is gone`) as string,
      });
      expect(isAlive(pids[0] ?? 0)).toBe(false);
    } finally {
      cluster.server.resume();
    }
    await cluster.server.kill();
    try {
      expect(await cli(here.home, "process", "kill", second)).toMatchObject({ code: 0 });
      expect(isAlive(pids[1] ?? 0)).toBe(false);
      const unknown = await cli(here.home, "runs", "cancel", "run_000000000000");
      expect(unknown.stderr).toContain("cannot be read");
      expect(unknown.code).toBe(5);
      await there.kill();
      const unreachable = await cli(here.home, "runs", "cancel", third);
      expect(unreachable).toMatchObject({ code: 5, stdout: "" });
      expect(unreachable.stderr).toContain("cannot be read");
      expect(isAlive(pids[2] ?? 0)).toBe(true);
    } finally {
      await cluster.server.start();
    }
    await cli(there.home, "runs", "cancel", third);
  });

  test("a locked table is not reported as an absent record", async () => {
    const lock = new Client(cluster.database.url);
    lock.on("error", () => {});
    await lock.connect();
    await lock.query("begin; lock table holdfast.runs in access exclusive mode");
    expect(await cli(here.home, "runs", "cancel", "run_000000000000")).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("cannot be read") as string,
    });
    await lock.end();
  });

  test("a lookup without a readable store reports that, not an absent record", async () => {
    const lookups = [
      ["runs", "show", "run_000000000000"],
      ["runs", "cancel", "run_000000000000"],
      ["process", "kill", "run_000000000000"],
      ["process", "poll", "run_000000000000"],
      ["process", "remove", "run_000000000000"],
      ["logs", "run_000000000000"],
      ["tasks", "show", "task_000000000000"],
      ["tasks", "cancel", "task_000000000000"],
      ["sessions", "status", "nothing"],
      ["acp", "show", "nothing"],
      ["acp", "close", "nothing"],
    ];
    const ofGateways = [
      ["gateways", "list"],
      ["approvals", "show", "apr_000000000000"],
      ["approvals", "deny", "apr_000000000000"],
    ];
    const unread = ({ code, stderr }: CliResult, words: string): void =>
      expect({ words, code, stderr }).toEqual({
        words,
        code: 5,
        stderr: expect.stringContaining("cannot be read") as string,
      });
    await eachAtOnce(lookups, ({ code }, words) => expect(code, `${words}, with the store`).toBe(1));
    await cluster.server.kill();
    try {
      await eachAtOnce([...lookups, ...ofGateways], unread);
      await here.kill();
      await eachAtOnce(lookups, unread);
    } finally {
      await cluster.server.start();
    }
  });

  test("a full connection limit is not reported as an absent record", async () => {
    const clients: Client[] = [];
    try {
      for (let full = false; !full;) {
        const client = new Client(cluster.database.url);
        client.on("error", () => {});
        full = await client.connect().then(
          () => false,
          () => true,
        );
        if (!full) clients.push(client);
      }
      const unread = await cli(here.home, "runs", "show", "run_000000000000");
      expect(unread).toMatchObject({ code: 5, stderr: expect.stringContaining("connections") as string });
    } finally {
      await Promise.all(clients.map((client) => client.end()));
    }
  });
});
