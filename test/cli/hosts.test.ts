import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { hostname } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findAnchorBinary } from "../../src/anchor/binary.js";
import { inspectProcesses } from "../../src/anchor/inspect/processes.js";
import type { PsRow } from "../../src/cli/runs/ps-table.js";
import { observeMachineIdentity } from "../../src/home/machine-identity.js";
import type { RunRecord } from "../../src/model/run.js";
import type { Store } from "../../src/store/store.js";
import { newGateway } from "../contract/gateway-contract.js";
import { BatchCli } from "../support/cli/batch-cli.js";
import { CliFixture, type CliResult } from "../support/cli/cli-fixture.js";
import {
  type PostgresDatabase,
  type PostgresServer,
  startPostgresServer,
  whyNoPostgres,
} from "../support/store/postgres-server.js";
import { GATED, LEASE_MS, newRun, newRunEvent, RUNNING } from "../support/store/run-samples.js";

const FAR = "fa4000000000000000000000000000aa";
const HEALTHY = "run_far0healthy0";
const SILENT = "run_far0silent00";

/** A gateway here with one run, and the records of another host in the same database. */
describe.skipIf(whyNoPostgres !== null)("with runs of another host in the store", { timeout: 60_000 }, () => {
  let server: PostgresServer;
  let database: PostgresDatabase;
  let store: Store;
  let cliFixture: CliFixture;
  /** A process with a child. The records of the other host have its identity, as on a cloned machine. */
  let stranger: ChildProcess;
  let local: string;
  let cli: BatchCli;
  const holdfast = (...args: string[]): Promise<CliResult> => cli.holdfast(...args);
  const json = async (...args: string[]): Promise<unknown> => {
    const { code, stdout, stderr } = await holdfast(...args, "--json");
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
    return JSON.parse(stdout);
  };

  beforeAll(async () => {
    server = await startPostgresServer();
    database = await server.createDatabase();
    store = await database.open();
    cliFixture = await CliFixture.open();
    cli = new BatchCli({
      ...cliFixture.env,
      HOLDFAST_DATABASE_URL: database.url,
      HOLDFAST_IN_PROCESS: undefined,
    });
    stranger = spawn("sh", ["-c", "trap 'kill $!' TERM; sleep 3600 & echo up; wait"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    await once(stranger.stdout ?? stranger, "data");
    expect(await holdfast("gateway", "start")).toMatchObject({ code: 0 });
    local = (await holdfast("run", "-d", "--", "sleep", "7001")).stdout.trim();
    const [evidence] = await inspectProcesses(findAnchorBinary(), [stranger.pid ?? 0], { brief: true });
    const identity = evidence?.identity ?? expect.fail("the stranger does not exist");
    const far = {
      ...(await observeMachineIdentity(cliFixture.home)),
      hostId: FAR,
      stateId: "st_far",
      imported: null,
      ownerInstanceId: "gw_far",
      originInstanceId: "gw_far",
      createdAt: Date.now(),
    };
    const { hostId, bootId, pidNamespace, stateId } = far;
    const place = { hostId, bootId, pidNamespace, stateId };
    await store.registerGateway(
      newGateway({ ...place, instanceId: "gw_far", hostName: "far\x1b[31m", address: null }),
    );
    for (const [runId, leaseMs] of [
      [HEALTHY, LEASE_MS],
      [SILENT, -90_000],
    ] as const) {
      const lease = await store.insertRun(newRun({ ...far, runId }), leaseMs);
      await store.saveRun(lease, { ...GATED, anchor: identity, root: identity });
      await store.saveRun(lease, RUNNING, [newRunEvent(runId)]);
    }
  });
  afterAll(async () => {
    await holdfast("gateway", "stop", "--runs", "terminate");
    await cli[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    const survived = stranger.exitCode === null && stranger.signalCode === null;
    stranger.kill();
    await once(stranger, "close");
    await cliFixture[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    expect(survived, "the stranger").toBe(true);
  });

  test("ps shows processes of this host, and records of the other", async () => {
    const shown = (await json("ps")) as PsRow[];
    const of = (runId: string): PsRow => shown.find((row) => row.runId === runId) ?? expect.fail(runId);
    expect(of(local)).toMatchObject({ hostName: hostname(), care: null });
    expect(of(local).processes).toHaveLength(1);
    expect(of(HEALTHY)).toMatchObject({
      hostId: FAR,
      hostName: "far\x1b[31m",
      care: null,
      processes: [],
    });
    expect(of(SILENT)).toMatchObject({ care: "unreachable", processes: [] });
    expect(of(SILENT).silentMs).toBeGreaterThanOrEqual(120_000);
    const { stdout } = await holdfast("ps");
    expect(stdout).toMatch(/^RUN +HOST +STATUS /);
    expect(stdout).toMatch(new RegExp(`${SILENT}  far +running, unreachable, last heartbeat 2m\\d*s? ago `));
    expect(stdout).not.toContain("\x1b");
  });

  test("--host selects a host by its name or the beginning of its id", async () => {
    const ids = (records: unknown): string[] => (records as RunRecord[]).map(({ runId }) => runId).toSorted();
    expect(ids(await json("runs", "list", "--host", FAR.slice(0, 5)))).toEqual([HEALTHY, SILENT]);
    expect(ids(await json("runs", "list", "--host", hostname()))).toEqual([local]);
    const shown = (await json("ps", "--host", hostname())) as PsRow[];
    expect(shown.map(({ runId }) => runId)).toEqual([local]);
    const { code, stdout, stderr } = await holdfast("ps", "--host", "nowhere");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/there is no host nowhere; known: /);
  });

  test("runs show of another host shows the record, and inspects no process here", async () => {
    expect(await json("runs", "show", SILENT)).toMatchObject({ hostId: FAR, hostName: "far\x1b[31m" });
    const { stdout } = await holdfast("runs", "show", SILENT);
    expect(stdout).toContain("running, unreachable, last heartbeat 2m");
    expect(stdout).toContain(`far, ${FAR}, boot`);
    expect(stdout).toContain("not inspected: it runs on another machine");
  });

  test("events show the host", async () => {
    const { stdout } = await holdfast("events", "--host", FAR, "--json");
    const events = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(events.map(({ runId, hostId, hostName }) => [runId, hostId, hostName])).toEqual([
      [HEALTHY, FAR, "far\x1b[31m"],
      [SILENT, FAR, "far\x1b[31m"],
    ]);
    const all = (await holdfast("events")).stdout;
    expect(all).toContain(`  far  ${SILENT}  spawn`);
    expect(all).toContain(`  ${hostname()}  ${local}  spawn`);
  });

  test("who --host answers from the records, not from the process with that pid here", async () => {
    const pid = String(stranger.pid);
    const { code, stdout } = await holdfast("who", pid, "--host", FAR);
    expect(code).toBe(0);
    expect(stdout).toContain(`${pid} on far is recorded as the leader of ${SILENT}, not verified here`);
    expect(await json("who", pid, "--host", FAR)).toMatchObject([
      { hostId: FAR, role: "leader", verified: false },
      { hostId: FAR, role: "leader", verified: false },
    ]);
    // Here the process belongs to no run.
    expect(await holdfast("who", pid)).toMatchObject({ code: 1 });
    expect((await holdfast("who", "1", "--host", FAR)).stderr).toContain("has it on record");
    const own = String((await store.getRun(local))?.root?.pid);
    expect(await json("who", own, "--host", hostname())).toMatchObject({ runId: local, verified: true });
  });

  test("gateways list shows both gateways with their state, and no key", async () => {
    const list = (await json("gateways", "list")) as Record<string, unknown>[];
    expect(list.map(({ presence, runs }) => [presence, runs])).toContainEqual(["up", 1]);
    expect(list.find(({ instanceId }) => instanceId === "gw_far")).toMatchObject({ hostId: FAR, runs: 2 });
    expect(JSON.stringify(list)).not.toMatch(/peerKey|c2VjcmV0/);
    await database.query(
      "update holdfast.gateways set heartbeat_at = heartbeat_at - 60000 where host_id = '" + FAR + "'",
    );
    const { stdout } = await holdfast("gateways", "list");
    expect(stdout).toMatch(/^HOST +GATEWAY +VERSION +STATUS +RUNS +LAST SEEN +ADDRESS\n/);
    expect(stdout).toMatch(/^far +gw_far +1\.2\.3 +silent +2 +1m\d*s? ago +-$/m);
    expect(stdout).not.toContain("\x1b");
  });
});
