import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { createClient, followNdjson, type GatewayClient } from "../../../src/api/client.js";
import { contract } from "../../../src/api/contract.js";
import { StoreAway } from "../../../src/errors.js";
import { type Gateway, type GatewayEvent, openGateway } from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { startGateway } from "../../../src/gateway/start-in-background.js";
import { findWaitingGateway } from "../../../src/gateway/gateway-files.js";
import type { RunEvent } from "../../../src/model/run-event.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import type { EventGap } from "../../../src/store/runs/event-cursor.js";
import { errorOf } from "../../support/gateway/real-gateway.js";
import { postgresForSuite, whyNoPostgres } from "../../support/store/postgres-server.js";
import { shellInput, temporaryHome, waitForOutput } from "../../support/supervisor/real-supervisor.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

async function fetchMetrics({ socketPath, token }: { socketPath: string; token: string }): Promise<string> {
  const asking = request({ socketPath, path: "/metrics", headers: { authorization: `Bearer ${token}` } });
  asking.end();
  const [response] = (await once(asking, "response")) as [IncomingMessage];
  return text(response);
}

/** Far below the time for which the database is away, and enough for a gateway to start and hold its runs. */
const measureOwnerLoss = (): number => scaled(1_000);

describe.skipIf(whyNoPostgres !== null)("a gateway whose database is away", () => {
  const server = postgresForSuite();
  let home: string;
  let news: GatewayEvent[];
  let ownerLossMs: number;
  beforeEach(async () => {
    home = await temporaryHome();
    news = [];
    ownerLossMs = measureOwnerLoss();
    // After a failed test.
    await server.start();
    vi.stubEnv("HOLDFAST_DATABASE_URL", (await server.createDatabase()).url);
    onTestFinished(() => void vi.unstubAllEnvs());
    const bystander = spawn("sleep", ["300"], { stdio: "ignore" });
    onTestFinished(() => {
      expect([bystander.exitCode, bystander.signalCode]).toEqual([null, null]);
      bystander.kill("SIGKILL");
    });
  });

  const open = (signal?: AbortSignal): Promise<Gateway> =>
    openGateway({
      home,
      onEvent: (each) => news.push(each),
      ...(signal === undefined ? {} : { signal }),
    });
  const clientOf = async (): Promise<{ client: GatewayClient; socketPath: string; token: string }> => {
    const options = { socketPath: gatewaySocketPath(home), token: (await readOperatorToken(home)) ?? "" };
    return { ...options, client: createClient(options) };
  };
  const isAlive = (pid: number | null): boolean => existsSync(`/proc/${pid}`);

  test(
    "when it starts waits, reports it, and keeps the anchors of its runs from ending them",
    { timeout: scaled(90_000) },
    async () => {
      const before = await open();
      await before.ready;
      const task = await before.supervisor.spawn(shellInput("read line; echo got $line; exit 4"), {
        ownerLossMs,
      });
      const brief = await before.supervisor.spawn(shellInput("sleep 0.5; exit 6"), { ownerLossMs });
      await server.kill();
      await before.stop({ runs: "leave", waitMs: 0 });

      const leave = new AbortController();
      const refused = open(leave.signal);
      await expect.poll(() => findWaitingGateway(home), { timeout: scaled(15_000) }).not.toBeNull();
      leave.abort();
      await expect(refused).rejects.toBeInstanceOf(StoreAway);
      expect(await findWaitingGateway(home)).toBeNull();

      const opening = open();
      await expect.poll(() => findWaitingGateway(home), { timeout: scaled(15_000) }).not.toBeNull();
      await expect(startGateway(home)).rejects.toThrow(/waits for its store: .*cannot be reached/);
      // Anchors report no event when they do nothing.
      await delay(2.5 * ownerLossMs);
      expect(isAlive(task.rootPid)).toBe(true);
      expect(await findWaitingGateway(home)).toMatchObject({ pid: process.pid, held: 1 });
      expect(news.findLast(({ type }) => type === "waiting")).toMatchObject({ held: 1 });

      await server.start();
      const after = await opening;
      onTestFinished(() => after.stop({ runs: "terminate", waitMs: 0 }));
      await after.ready;
      expect(await findWaitingGateway(home)).toBeNull();
      const run = after.supervisor.run(task.runId) ?? expect.fail("it is not held");
      await run.write("you\n");
      await waitForOutput(run, "got you");
      expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 4 });
      expect((await after.supervisor.getRun(brief.runId))?.exit).toMatchObject({ reason: "exit", code: 6 });
      expect(
        (await after.supervisor.listEvents()).filter(
          (event) => event.type === "reconcile" && event.data.row === "forgotten",
        ),
      ).toEqual([]);
    },
  );

  test(
    "when it goes away once more before the gateway is open, its runs are kept",
    { timeout: scaled(90_000) },
    async () => {
      const before = await open();
      await before.ready;
      const task = await before.supervisor.spawn(shellInput("sleep 300"), { ownerLossMs });
      await before.stop({ runs: "leave", waitMs: 0 });
      let killed = Promise.resolve();
      const opening = openGateway({
        home,
        // Its supervisor has reached the store; the next step does not.
        onEvent: ({ type }) => {
          if (type === "up") killed = server.kill();
        },
      });
      await expect
        .poll(() => findWaitingGateway(home), { timeout: scaled(15_000) })
        .toMatchObject({ held: 1 });
      // Anchors report no event when they do nothing.
      await delay(2.5 * ownerLossMs);
      expect(isAlive(task.rootPid)).toBe(true);
      await killed;
      await server.start();
      const after = await opening;
      onTestFinished(() => after.stop({ runs: "terminate", waitMs: 0 }));
      await after.ready;
      expect(after.supervisor.run(task.runId)).not.toBeNull();
    },
  );

  test(
    "while it runs answers, stops runs, starts none; followers get a gap when the database comes back older",
    { timeout: scaled(90_000) },
    async () => {
      const gateway = await open();
      onTestFinished(() => gateway.stop({ runs: "terminate", waitMs: 0 }));
      await gateway.ready;
      const { client, ...address } = await clientOf();
      const kept = await gateway.supervisor.spawn(shellInput("sleep 300"), { ownerLossMs });
      const cancelled = await gateway.supervisor.spawn(shellInput("sleep 300"), { ownerLossMs });
      const started = () => gateway.supervisor.listRuns({ states: ["running"] });
      await expect.poll(started, { timeout: scaled(15_000) }).toHaveLength(2);
      await server.backUp();
      const brief = await gateway.supervisor.spawn(shellInput("exit 2"));
      await brief.wait();
      const lines = followNdjson<RunEvent | EventGap>(address, `${contract.events.path}?follow=1`);
      const seen: (RunEvent | EventGap)[] = [];
      // Until the gateway stops.
      void (async () => {
        for await (const line of lines) seen.push(line);
      })().catch(() => undefined);
      await waitFor("the follower has the end", () => seen.some((each) => each.type === "exit"), 15_000);

      server.pause();
      expect(await client.status()).toMatchObject({ storeAway: "the store does not answer", runs: 2 });
      server.resume();
      await server.kill();
      // The answer does not wait for a connection that is being refused.
      await expect
        .poll(() => client.status(), { timeout: scaled(15_000) })
        .toMatchObject({ storeAway: expect.stringContaining("cannot be reached") });
      expect(await errorOf(client.exec({ body: { argv: ["true"] } }))).toMatchObject({ code: "STORE_AWAY" });
      const stopped = await client.kill({ params: { runId: cancelled.runId }, body: { reason: "enough" } });
      expect(stopped).toMatchObject({ outcome: "gone" });
      expect([isAlive(cancelled.rootPid), isAlive(kept.rootPid)]).toEqual([false, true]);
      await server.goBack();
      await server.start();

      const end = async (runId: string) => (await gateway.supervisor.getRun(runId))?.exit;
      await expect
        .poll(() => end(cancelled.runId), { timeout: scaled(30_000) })
        .toMatchObject({
          reason: "manual-cancel",
          actor: "operator (enough)",
        });
      await expect
        .poll(() => end(brief.runId), { timeout: scaled(30_000) })
        .toMatchObject({ reason: "exit", code: 2 });
      expect(await gateway.supervisor.getRun(kept.runId)).toMatchObject({ state: "running" });
      // The follower gets the restored event once, after the gap.
      const isRestored = (each: RunEvent | EventGap): boolean =>
        each.type === "reconcile" && each.runId === brief.runId && each.data.row === "forgotten";
      await waitFor("the follower has the restored record", () => seen.some(isRestored), 30_000);
      const gaps = seen.flatMap((each, at) => (each.type === "gap" ? [at] : []));
      expect(gaps).toHaveLength(1);
      expect(seen.findIndex(isRestored)).toBeGreaterThan(gaps[0] ?? Infinity);
      expect(await client.events({ query: { after: 100_000 } })).toMatchObject({ gap: true, events: [] });
      const metrics = await fetchMetrics(address);
      expect(metrics).toMatch(/holdfast_run_restore_total [1-9]/);
    },
  );

  test(
    "when it is stopped drains or terminates its runs, and reports it",
    { timeout: scaled(90_000) },
    async () => {
      const settled = async (runs: "drain" | "terminate", script: string, kept: number): Promise<unknown> => {
        const gateway = await open();
        await gateway.ready;
        const { client } = await clientOf();
        const task = await gateway.supervisor.spawn(shellInput(script), { ownerLossMs, graceMs: 100 });
        const stays = await gateway.supervisor.spawn(shellInput("sleep 300"), { graceMs: 100 });
        await waitFor("both run", () => task.rootPid !== null && stays.rootPid !== null, 15_000);
        await server.kill();
        if (runs === "drain") await task.write("go\n");
        const done = await client.stop({ body: { runs, waitMs: 3_000 } });
        await gateway.stopRequested;
        expect([isAlive(task.rootPid), isAlive(stays.rootPid)]).toEqual([false, kept > 0]);
        await gateway.stop();
        expect(news.findLast(({ type }) => type === "down")).toEqual({ type: "down", left: kept });
        await server.start();
        return done;
      };
      const drained = { left: 1, ended: 1, terminated: 0, callers: 0 };
      expect(await settled("drain", "read line; sleep 1; exit 3", 1)).toEqual(drained);
      // With the run that was left.
      const terminated = { left: 0, ended: 0, terminated: 3, callers: 0 };
      expect(await settled("terminate", "sleep 300", 0)).toEqual(terminated);
    },
  );
});
