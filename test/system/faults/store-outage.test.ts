import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { GatewayCluster, type ClusterProcess } from "../../support/gateway/gateway-cluster.js";
import { whyNoPostgres } from "../../support/store/postgres-server.js";
import { cliPath } from "../../support/cli/cli-fixture.js";
import { waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
}

describe.skipIf(whyNoPostgres !== null)("with a database that cannot be read", () => {
  let cluster: GatewayCluster;
  let here: ClusterProcess;
  beforeEach(async () => {
    cluster = await GatewayCluster.open();
    here = await cluster.spawnGateway();
  });
  afterEach(async () => {
    await cluster[Symbol.asyncDispose]();
    vi.unstubAllEnvs();
  });

  const cli = (home: string, ...args: string[]): Promise<Ran> =>
    new Promise((resolve) => {
      const began = performance.now();
      const env = { ...process.env, HOLDFAST_HOME: home, HOLDFAST_IN_PROCESS: undefined };
      execFile(process.execPath, [cliPath, ...args], { env }, (error, stdout, stderr) => {
        const code = error === null ? 0 : Number(error.code ?? -1);
        resolve({ code, stdout, stderr, ms: performance.now() - began });
      });
    });
  const exec = async ({ client }: ClusterProcess, command: string): Promise<string> => {
    const { run } = await client.exec({ body: { command, background: true } });
    return run.runId;
  };
  const pidOf = async ({ client }: ClusterProcess, runId: string): Promise<number> =>
    (await client.getRun({ params: { runId } })).root?.pid ?? expect.fail("no process");
  const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}`);

  for (const kind of ["hangs", "is stopped"] as const)
    test(
      `that ${kind}, commands about runs on this host answer within a second`,
      { timeout: 120_000 },
      async () => {
        // A command that needs no store shows how long the program takes to load.
        const startMs = Math.max(
          (await cli(here.home, "config", "check")).ms,
          (await cli(here.home, "config", "check")).ms,
        );
        const prompt = async (...args: string[]): Promise<Ran> => {
          const done = await cli(here.home, ...args);
          const what = `${args.join(" ")}: ${done.stdout}${done.stderr}`;
          expect(done.ms - startMs, what).toBeLessThan(scaled(1_000));
          return done;
        };
        const ended = await exec(here, "echo before");
        await here.client.poll({ params: { runId: ended }, query: { waitMs: 10_000 } });
        await waitForRunEnd(here.client, ended);
        const runId = await exec(here, "echo ready; read word; echo got $word; exec sleep 300");
        await here.client.poll({ params: { runId }, query: { waitMs: 10_000 } });
        const pid = await pidOf(here, runId);
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
          expect(await cli(here.home, "runs", "show", "run_000000000000")).toMatchObject({ code: 5 });
        } finally {
          if (kind === "hangs") cluster.server.resume();
          else await cluster.server.start();
        }
        await vi.waitFor(
          async () => expect((await here.client.getRun({ params: { runId } })).state).toBe("exited"),
          { timeout: 20_000, interval: 100 },
        );
      },
    );

  test("a run of another host is stopped through the gateway there", { timeout: 120_000 }, async () => {
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

  test(
    "a lookup without a readable store reports that, not an absent record",
    { timeout: 120_000 },
    async () => {
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
      await eachAtOnce(lookups, async (args) =>
        expect((await cli(here.home, ...args)).code, `${args.join(" ")}, with the store`).toBe(1),
      );
      await cluster.server.kill();
      try {
        for (const gateway of [true, false]) {
          if (!gateway) await here.kill();
          const ofGateways = [
            ["gateways", "list"],
            ["approvals", "show", "apr_000000000000"],
            ["approvals", "deny", "apr_000000000000"],
          ];
          await eachAtOnce(gateway ? [...lookups, ...ofGateways] : lookups, async (args) => {
            const { code, stderr } = await cli(here.home, ...args);
            expect({ args, code, stderr }).toEqual({
              args,
              code: 5,
              stderr: expect.stringContaining("cannot be read") as string,
            });
          });
        }
      } finally {
        await cluster.server.start();
      }
    },
  );

  test(
    "a locked table or a full connection limit is not reported as an absent record",
    { timeout: 120_000 },
    async () => {
      const lock = new Client(cluster.database.url);
      lock.on("error", () => {});
      await lock.connect();
      await lock.query("begin; lock table holdfast.runs in access exclusive mode");
      expect(await cli(here.home, "runs", "cancel", "run_000000000000")).toMatchObject({
        code: 5,
        stderr: expect.stringContaining("cannot be read") as string,
      });
      await lock.end();
      await here.kill();
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
    },
  );
});

/** Four at a time: most of a command without a store is waiting. */
async function eachAtOnce<T>(all: readonly T[], each: (one: T) => Promise<void>): Promise<void> {
  const left = [...all];
  const work = async (): Promise<void> => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) await each(one);
  };
  await Promise.all(Array.from({ length: 4 }, work));
}
