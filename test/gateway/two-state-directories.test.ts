import { spawn } from "node:child_process";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { createClient, type GatewayClient } from "../../src/api/client.js";
import { type Gateway, openGateway } from "../../src/gateway/gateway.js";
import { packageVersion } from "../../src/home/package.js";
import { gatewaySocketPath } from "../../src/home/state-directory.js";
import { loadOrCreateGatewayId } from "../../src/home/persistent-ids.js";
import { readOperatorToken } from "../../src/sessions/tokens.js";
import type { Store } from "../../src/store/store.js";
import { newGateway } from "../contract/gateway-contract.js";
import { CliFixture } from "../support/cli/cli-fixture.js";
import { scrapeMetrics } from "../support/gateway/scrape-metrics.js";
import { type PostgresDatabase, postgresForSuite, whyNoPostgres } from "../support/store/postgres-server.js";
import { EXITED, newRun } from "../support/store/run-samples.js";
import { removeStateDirectory } from "../support/temporary-directory.js";
import { waitFor } from "../support/wait-for.js";

const SPAWNED = "holdfast_run_spawn_total";

interface GatewayHome {
  readonly home: string;
  readonly gateway: Gateway;
  readonly client: GatewayClient;
}

describe.skipIf(whyNoPostgres !== null)("two state directories of one host on one database", () => {
  const server = postgresForSuite();
  let database: PostgresDatabase;
  let store: Store;
  beforeEach(async () => {
    database = await server.createDatabase();
    store = await database.open();
    vi.stubEnv("HOLDFAST_DATABASE_URL", database.url);
    const bystander = spawn("sleep", ["3600"], { stdio: "ignore" });
    onTestFinished(async () => {
      const survived = bystander.exitCode === null && bystander.signalCode === null;
      bystander.kill("SIGKILL");
      await store[Symbol.asyncDispose]();
      expect(survived, "the bystander").toBe(true);
    });
  });
  afterEach(() => vi.unstubAllEnvs());

  async function newHome(): Promise<string> {
    const home = await mkdtemp(join(tmpdir(), "hf-"));
    onTestFinished(() => removeStateDirectory(home));
    return home;
  }

  async function open(home: string): Promise<GatewayHome> {
    const gateway = await openGateway({ home, onEvent: () => undefined });
    onTestFinished(() => gateway.stop({ runs: "terminate", waitMs: 0 }));
    await gateway.ready;
    const client = createClient({
      socketPath: gatewaySocketPath(home),
      token: (await readOperatorToken(home)) ?? "",
    });
    return { home, gateway, client };
  }

  const start = async ({ client }: GatewayHome, ...argv: string[]): Promise<string> =>
    (await client.exec({ body: { argv, background: true, graceMs: 200 } })).run.runId;

  test("each counts, measures and deletes only its own runs", { timeout: 60_000 }, async () => {
    const [one, two] = await Promise.all([newHome().then(open), newHome().then(open)]);
    await store.deleteGateway(one.gateway.instanceId);
    await start(one, "sleep", "7001");
    await start(two, "sleep", "7002");
    const ended = await start(two, "true");
    await two.gateway.supervisor.run(ended)?.wait();
    expect((await store.listRuns({})).map(({ stateId }) => stateId)).not.toContain(null);
    for (const { client } of [one, two]) expect((await client.status()).runs).toBe(1);
    // The other's events come later than one's own: once they have been counted here, so have all.
    await waitFor("two starts are counted", async () => (await scrapeMetrics(two)).get(SPAWNED) === 2);
    await start(one, "sleep", "7003");
    await waitFor("the last start is counted", async () => (await scrapeMetrics(one)).get(SPAWNED) === 2);
    const series = await scrapeMetrics(one);
    expect(series.get('holdfast_runs{state="running"}')).toBe(2);
    expect(series.get("holdfast_processes")).toBe(2);
    expect([...series.keys()].filter((name) => name.startsWith("holdfast_run_exit_total"))).toEqual([]);
    // The one that would forget everything has nothing to forget.
    expect(await one.gateway.supervisor.retain({ endedKept: 0, endedKeptMs: 0 })).toEqual({
      records: 0,
      outputs: 0,
    });
    expect(await two.gateway.supervisor.retain({ endedKept: 0 })).toMatchObject({ records: 1 });
    expect(await store.getRun(ended)).toBeNull();
    // It says every ten seconds that it is there.
    const isBack = async (): Promise<boolean> => (await store.getGateway(one.gateway.instanceId)) !== null;
    await waitFor("it is known again", isBack, 30_000);
  });

  test("neither acquires the runs of the other's killed gateway", { timeout: 60_000 }, async () => {
    const gatewayHome = await open(await newHome());
    const cliFixture = await CliFixture.open();
    onTestFinished(() => cliFixture[Symbol.asyncDispose]());
    const env = { HOLDFAST_DATABASE_URL: database.url, HOLDFAST_IN_PROCESS: undefined };
    const holdfast = (...args: string[]) => cliFixture.startWith(env, ...args).finished;
    const { pid, instanceId } = JSON.parse((await holdfast("gateway", "start", "--json")).stdout) as {
      pid: number;
      instanceId: string;
    };
    onTestFinished(async () => void (await holdfast("gateway", "stop", "--runs", "terminate")));
    const runId = (await holdfast("run", "-d", "--", "sleep", "7004")).stdout.trim();
    process.kill(pid, "SIGKILL");
    await database.query("update holdfast.runs set lease_expires_at = 0");
    const before = await store.getRun(runId);
    const { decisions } = await gatewayHome.gateway.supervisor.reconcile({ runIds: [runId] });
    // Expired for more than a day: it is looked at, and left.
    expect(decisions).toMatchObject([{ runId, row: "elsewhere", action: "leave" }]);
    expect(await store.getRun(runId)).toEqual(before);
    expect(await holdfast("gateway", "start")).toMatchObject({ code: 0 });
    expect(await store.getRun(runId)).toMatchObject({ state: "running", ownerInstanceId: instanceId });
  });

  test("each deletes old runs without a state id only if its own instances started them", async () => {
    const gatewayHome = await open(await newHome());
    const { instanceId } = gatewayHome.gateway;
    const before = { stateId: null, hostId: (await store.listHosts())[0]?.hostId ?? "" };
    for (const originInstanceId of [instanceId, "in_another"]) {
      const run = newRun({ ...before, originInstanceId, runId: `run_${originInstanceId}` });
      await store.saveRun(await store.insertRun(run, 1_000), EXITED);
    }
    expect(await gatewayHome.gateway.supervisor.retain({ endedKept: 0 })).toMatchObject({ records: 1 });
    expect((await store.listRuns({})).map(({ runId }) => runId)).toEqual(["run_in_another"]);
  });

  test("both are listed, with the host's name, from start to stop", async () => {
    const one = await open(await newHome());
    const home = await newHome();
    const two = await openGateway({ home, onEvent: () => undefined });
    const { gateways } = await one.client.listGateways();
    expect(gateways.map(({ presence }) => presence)).toEqual(["up", "up"]);
    expect(gateways.find(({ instanceId }) => instanceId === two.instanceId)).toMatchObject({
      hostName: hostname(),
      version: packageVersion(),
      capabilities: { platform: process.platform, pty: true },
      runs: 0,
    });
    expect(new Set(gateways.map(({ stateId }) => stateId)).size).toBe(2);
    expect(JSON.stringify(gateways)).not.toContain("peerKey");
    await two.stop();
    const presence = async (): Promise<(string | undefined)[]> =>
      (await one.client.listGateways()).gateways
        .filter(({ instanceId }) => instanceId === two.instanceId)
        .map((each) => each.presence);
    expect(await presence()).toEqual(["stopped"]);
    await open(home);
    expect(await presence()).toEqual(["up"]);
  });

  test("a gateway is not started from a copy beside its original, and changes nothing there", async () => {
    const one = await open(await newHome());
    const runId = await start(one, "sleep", "7005");
    const home = await newHome();
    // Sockets cannot be copied, and to read a lock is to lose it.
    const filter = (from: string): boolean => !/(sock|\.lock)$/.test(from);
    await cp(one.home, home, { recursive: true, filter });
    await waitFor(
      "it is on record that it runs",
      async () => (await store.getRun(runId))?.startedAt !== null,
    );
    const [before, events] = [await store.getRun(runId), await store.listEvents({})];
    const announced = await store.getGateway(one.gateway.instanceId);
    await expect(openGateway({ home, onEvent: () => undefined })).rejects.toMatchObject({
      code: "STATE_COPIED",
      message: expect.stringContaining("is a copy of") as string,
    });
    // The same without the record of where it was made: its row in the store tells.
    await rm(join(home, "state-location"));
    await expect(openGateway({ home, onEvent: () => undefined })).rejects.toMatchObject({
      code: "STATE_UNUSABLE",
      message: expect.stringContaining("in another directory") as string,
    });
    const { leaseExpiresAt: _, ...kept } = before ?? expect.fail("no run");
    expect(await store.getRun(runId)).toMatchObject({ ...kept, state: "running" });
    expect(await store.listEvents({})).toEqual(events);
    const { directory, startedAt } = announced ?? expect.fail("no gateway");
    const row = { directory, startedAt, stoppedAt: null };
    expect(await store.getGateway(one.gateway.instanceId)).toMatchObject(row);
    // Stopped there, it has moved here.
    await one.gateway.stop({ runs: "terminate", waitMs: 0 });
    await open(home);
    expect((await store.getGateway(one.gateway.instanceId))?.directory).not.toBe(directory);
  });

  test("a gateway is not started from a copy of a state directory whose original runs elsewhere", async () => {
    const home = await newHome();
    const instanceId = await loadOrCreateGatewayId(home);
    await store.registerGateway(newGateway({ instanceId, hostId: "another" }));
    const original = newRun({ ownerInstanceId: instanceId, originInstanceId: instanceId, hostId: "another" });
    await store.insertRun(original, 30_000);
    await expect(openGateway({ home, onEvent: () => undefined })).rejects.toMatchObject({
      code: "STATE_UNUSABLE",
      message: expect.stringContaining("seems to be a copy") as string,
    });
    expect(await store.getGateway(instanceId)).toMatchObject({ hostId: "another", stoppedAt: null });
    expect(await store.getRun(original.runId)).toMatchObject({ state: "starting", leaseEpoch: 1 });
    // It has moved: the other has stopped, and nothing of the failed start is in the way.
    await store.retireGateway(instanceId);
    await open(home);
    expect((await store.getGateway(instanceId))?.hostId).not.toBe("another");
  });
});
