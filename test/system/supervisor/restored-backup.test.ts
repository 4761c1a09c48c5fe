import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { Run, Supervisor } from "../../../src/supervisor/api.js";
import { openSupervisor } from "../../../src/supervisor/open.js";
import { postgresForSuite, whyNoPostgres } from "../../support/store/postgres-server.js";
import { shellInput, temporaryHome, waitForOutput } from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

describe.skipIf(whyNoPostgres !== null)("a store that is restored from an older backup", () => {
  const server = postgresForSuite();

  test(
    "gets its lost records back: every run continues, and every end is correct and recorded once",
    { timeout: 120_000 },
    async () => {
      const home = await temporaryHome();
      const database = await server.createDatabase();
      vi.stubEnv("HOLDFAST_DATABASE_URL", database.url);
      onTestFinished(() => void vi.unstubAllEnvs());
      const bystander = spawn("sleep", ["300"], { stdio: "ignore" });
      onTestFinished(() => void bystander.kill("SIGKILL"));
      const open = (): Promise<Supervisor> =>
        openSupervisor({ home, instanceId: "in_back", onProblem: () => {} });
      let supervisor = await open();
      onTestFinished(() => supervisor.close());

      const mark = (name: string): string => join(home, name);
      const waiting = (name: string, code: number): Promise<Run> =>
        supervisor.spawn(
          shellInput(`echo up; while [ ! -e ${mark(name)} ]; do sleep 0.05; done; exit ${code}`),
          {
            labels: { name },
          },
        );
      const end = (name: string): void => writeFileSync(mark(name), "");

      const old = await supervisor.spawn(shellInput("exit 9"));
      await old.wait();
      const lives = await waiting("lives", 0);
      const endsAfter = await waiting("ends-after", 7);
      const cancelledAfter = await waiting("never", 0);
      const endsDuring = await waiting("ends-during", 5);
      const cancelledDuring = await waiting("never", 0);
      const started = () => supervisor.listRuns({ states: ["running"] });
      await expect.poll(started, { timeout: 15_000 }).toHaveLength(5);
      await server.backUp();

      // All of this will be forgotten.
      end("ends-after");
      await endsAfter.wait();
      await cancelledAfter.cancel({ actor: "cli:somebody" });
      await cancelledAfter.wait();
      const terminal = await supervisor.spawn({
        io: "pty",
        argv: ["/bin/sh", "-c", "read line; echo heard $line; sleep 300"],
      });
      const brief = await supervisor.spawn(shellInput("exit 3"));
      await brief.wait();
      await supervisor.adoptRun(lives.runId);

      await server.kill();
      end("ends-during");
      await cancelledDuring.cancel();
      await waitFor("it is gone", () => !existsSync(`/proc/${cancelledDuring.rootPid}`), 15_000);
      await server.goBack();
      await server.start();

      await supervisor.reconcile();
      await endsDuring.wait();
      await cancelledDuring.wait();
      const ends = async () => {
        const ended = await supervisor.listRuns({ states: ["exited"] });
        return new Map(ended.map(({ runId, exit }) => [runId, [exit?.reason, exit?.code]]));
      };
      expect(await ends()).toEqual(
        new Map([
          [old.runId, ["exit", 9]],
          [endsAfter.runId, ["exit", 7]],
          [cancelledAfter.runId, ["manual-cancel", null]],
          [brief.runId, ["exit", 3]],
          [endsDuring.runId, ["exit", 5]],
          [cancelledDuring.runId, ["manual-cancel", null]],
        ]),
      );
      expect(await supervisor.getRun(cancelledAfter.runId)).toMatchObject({
        exit: { actor: "cli:somebody" },
        labels: { name: "never" },
        emptiness: "proven",
      });
      for (const run of [lives, terminal]) {
        expect(existsSync(`/proc/${run.rootPid}`)).toBe(true);
        expect(await supervisor.getRun(run.runId)).toMatchObject({ state: "running", exit: null });
      }
      expect(await supervisor.getRun(lives.runId)).toMatchObject({
        kind: "service",
        labels: { name: "lives" },
      });
      expect(await supervisor.getRun(terminal.runId)).toMatchObject({
        io: "pty",
        originInstanceId: "in_back",
      });
      const told = await supervisor.listEvents();
      for (const { runId } of await supervisor.listRuns({ states: ["exited"] }))
        expect(told.filter((event) => event.runId === runId && event.type === "exit")).toHaveLength(1);
      const again = told.flatMap((event) =>
        event.type === "reconcile" && event.data.row === "forgotten" ? [event.runId] : [],
      );
      expect(again.toSorted()).toEqual(
        [lives, endsAfter, cancelledAfter, terminal, brief].map(({ runId }) => runId).toSorted(),
      );

      // Steered, ended and started as ever; looked at again, nothing changes.
      // On a busy machine the outage may have been longer than a lease is good for: then after the next renewal.
      const steered = () =>
        terminal.write("you\n").then(
          () => true,
          () => false,
        );
      await expect.poll(steered, { timeout: 15_000 }).toBe(true);
      await waitForOutput(terminal, "heard you");
      end("lives");
      expect((await lives.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
      const settled = await ends();
      await supervisor.close({ leaveRuns: true });
      supervisor = await open();
      expect((await supervisor.reconcile()).runs.map(({ runId }) => runId)).toEqual([terminal.runId]);
      expect(await ends()).toEqual(settled);
      expect(existsSync(`/proc/${terminal.rootPid}`)).toBe(true);
      expect(await supervisor.stop(terminal.runId)).toMatchObject({ outcome: "gone" });
      // The answer to a stop waits only briefly for the record.
      const exit = async () => (await supervisor.getRun(terminal.runId))?.exit?.reason;
      await expect.poll(exit).toBe("manual-cancel");
      expect([bystander.exitCode, bystander.signalCode]).toEqual([null, null]);
    },
  );
});
