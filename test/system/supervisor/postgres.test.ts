import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { StateUnusable } from "../../../src/errors.js";
import type { Supervisor } from "../../../src/supervisor/api.js";
import { openSupervisor } from "../../../src/supervisor/open.js";
import { type CuttableProxy, startCuttableProxy } from "../../support/store/postgres-proxy.js";
import {
  type PostgresDatabase,
  postgresForSuite,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import { shellInput, waitForOutput } from "../../support/supervisor/real-supervisor.js";
import { temporaryDirectory, type TemporaryDirectory } from "../../support/temporary-directory.js";
import { waitFor } from "../../support/wait-for.js";

describe.skipIf(whyNoPostgres !== null)("a supervisor on PostgreSQL", () => {
  const server = postgresForSuite();
  let database: PostgresDatabase;
  let directory: TemporaryDirectory;
  let proxy: CuttableProxy;
  let supervisor: Supervisor;
  beforeEach(async () => {
    database = await server.createDatabase();
    directory = await temporaryDirectory();
    proxy = await startCuttableProxy(server.directory);
    vi.stubEnv("HOLDFAST_DATABASE_URL", database.url.replace(server.directory, proxy.directory));
    supervisor = await openSupervisor({ home: join(directory.path, "h"), onProblem: () => {} });
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await supervisor.close();
    await proxy[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  const open = () => database.query("select run_id from holdfast.runs where state <> 'exited'");

  test(
    "stops a run while the server is dead, starts none, and records the end when it is back",
    { timeout: 90_000 },
    async () => {
      const run = await supervisor.spawn(shellInput("sleep 300"));
      const other = await supervisor.spawn(shellInput("sleep 300"));
      const bystander = spawn("sleep", ["300"], { stdio: "ignore" });
      onTestFinished(() => void bystander.kill("SIGKILL"));
      await server.kill();
      const mark = join(directory.path, "ran");
      await expect(supervisor.spawn(shellInput(`touch ${mark}`))).rejects.toBeInstanceOf(StateUnusable);
      await run.cancel();
      await waitFor("its processes are gone", () => !existsSync(`/proc/${run.rootPid}`), 15_000);
      expect(existsSync(`/proc/${other.rootPid}`)).toBe(true);
      await server.start();
      expect((await run.wait()).exit).toMatchObject({ reason: "manual-cancel" });
      expect(
        (await supervisor.listEvents({ runId: run.runId })).filter(({ type }) => type === "exit"),
      ).toHaveLength(1);
      expect(existsSync(mark)).toBe(false);
      // Its write may have failed, and is repeated.
      const state = async () => (await supervisor.getRun(other.runId))?.state;
      await expect.poll(state, { timeout: 30_000 }).toBe("running");
      expect([bystander.exitCode, bystander.signalCode]).toEqual([null, null]);
    },
  );

  test(
    "keeps its leases after a long outage of the server, and its runs continue",
    { timeout: 90_000 },
    async () => {
      const [ends, stops, lives] = await Promise.all(
        ["while [ ! -e $0 ]; do sleep 0.05; done; echo done; exit 3", "sleep 300", "sleep 300"].map(
          (script) =>
            supervisor.spawn(
              { io: "pipe", argv: ["/bin/sh", "-c", script, join(directory.path, "end")] },
              { ownerLossMs: 500 },
            ),
        ),
      );
      if (ends === undefined || stops === undefined || lives === undefined) return expect.fail("no runs");
      // The connection is not refused; it does not answer.
      server.pause();
      writeFileSync(join(directory.path, "end"), "");
      await waitForOutput(ends, "done");
      await stops.cancel();
      await waitFor("it is gone", () => !existsSync(`/proc/${stops.rootPid}`), 15_000);
      server.resume();
      expect((await ends.wait()).exit).toMatchObject({ reason: "exit", code: 3 });
      expect((await stops.wait()).exit).toMatchObject({ reason: "manual-cancel" });
      const told = await supervisor.listEvents();
      for (const { runId } of [ends, stops])
        expect(told.filter((event) => event.runId === runId && event.type === "exit")).toHaveLength(1);

      // The state after an outage of ten minutes, when another supervisor of this host is the first to reconcile.
      await database.query(
        "update holdfast.runs set lease_expires_at = lease_expires_at - 630000 where state <> 'exited'",
      );
      const other = await openSupervisor({ home: supervisor.home, onProblem: () => {} });
      onTestFinished(() => other.close());
      for (let looks = 0; looks < 2; looks += 1)
        expect((await other.reconcile()).decisions).toMatchObject([
          { runId: lives.runId, row: "stalled", action: "leave" },
        ]);
      expect(existsSync(`/proc/${lives.rootPid}`)).toBe(true);
      expect(await supervisor.getRun(lives.runId)).toMatchObject({
        ownerInstanceId: supervisor.instanceId,
        state: "running",
      });
    },
  );

  test(
    "does not start a command whose record may not be committed, wherever the connection is cut",
    { timeout: 90_000 },
    async () => {
      let withheld = 0;
      for (let passing = 0; ; passing += 1) {
        const mark = join(directory.path, `ran-${passing}`);
        await supervisor.listRuns({ limit: 1 });
        proxy.cut("answer", passing);
        const run = await supervisor.spawn(shellInput(`touch ${mark}`)).catch(() => null);
        proxy.mend();
        if (run !== null) {
          // The connection was cut after GO, if at all.
          expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
          expect(existsSync(mark)).toBe(true);
          break;
        }
        withheld += 1;
        expect(existsSync(mark)).toBe(false);
      }
      // The record was committed with the identity of its process.
      expect(withheld).toBeGreaterThanOrEqual(1);
      await supervisor.reconcile();
      await expect.poll(open, { timeout: 20_000 }).toEqual([]);
    },
  );
});
