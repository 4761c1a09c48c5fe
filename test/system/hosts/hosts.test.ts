import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { RunRecord } from "../../../src/model/run.js";
import type { GatewayRun } from "../../support/cli/recovery-fixture.js";
import { SupervisorProcess } from "../../support/supervisor/supervisor-process.js";
import { whyNoPostgres } from "../../support/store/postgres-server.js";
import type { TestHost } from "./test-host.js";
import { whyNoHosts } from "./test-network.js";
import { OutcomeReport } from "./outcome-report.js";
import { MultiHost } from "./multi-host.js";
import { waitFor } from "../../support/wait-for.js";

/** Shorter than the defaults, in the same proportions. */
const numbers = {
  leaseMs: 6_000,
  renewMs: 2_000,
  selfFenceMs: 4_000,
  storeBusyMs: 2_000,
  reconcileMs: 1_000,
  silentPollMs: 1_000,
  eventPollMs: 1_000,
};
/** Longer than the time without a heartbeat after which other hosts check the runs of a host. */
const AGES = defaults.hostLostMs + 60_000;
const LASTS = "echo up; read line; exit 5";

const rounds = Array.from({ length: process.env["HOLDFAST_SOAK"] === "1" ? 10 : 1 }, (_, at) => at + 1);

const whyNot = whyNoPostgres ?? whyNoHosts;
if (whyNot !== null) console.log(`hosts are not tested: ${whyNot}`);

vi.setConfig({ testTimeout: 120_000 });

describe.skipIf(whyNot !== null).each(rounds)("of three hosts on one database, round %i,", (round) => {
  const outcomes = new OutcomeReport();
  let multiHost: MultiHost;
  let ann: TestHost;
  let ben: TestHost;
  let cat: TestHost;
  const gateways = new Map<TestHost, GatewayRun>();

  beforeAll(async () => {
    multiHost = await MultiHost.open(["ann", "ben", "cat"]);
    [ann, ben, cat] = multiHost.hosts as [TestHost, TestHost, TestHost];
    await Promise.all(multiHost.hosts.map(begin));
  });
  afterAll(async () => {
    await multiHost[Symbol.asyncDispose]();
    console.log(`three hosts, round ${round}:\n${outcomes.toString()}`);
  });

  /** After a failed test. */
  afterEach(async () => {
    for (const host of multiHost.hosts) {
      host.resume();
      await host.plug();
    }
  });

  async function begin(host: TestHost): Promise<void> {
    gateways.set(host, await host.gateway(numbers));
  }

  function gatewaysOf(...hosts: readonly TestHost[]): GatewayRun[] {
    return hosts.map((host) => gateways.get(host)).filter((gateway) => gateway !== undefined);
  }

  /** One run on each host. */
  async function runEverywhere(): Promise<[string, string, string]> {
    const started = multiHost.hosts.map((host) => host.script(LASTS, { stdin: "pipe" }));
    return (await Promise.all(started)) as [string, string, string];
  }

  /** Changes a record so that it names processes of another host. */
  async function confuse(
    runId: string,
    columns: Readonly<Record<string, string | number | null>>,
  ): Promise<void> {
    const assignments = Object.entries(columns).map(
      ([name, value]) => `${name} = ${value === null ? "null" : `'${value}'`}`,
    );
    await multiHost.database.query(
      `update holdfast.runs set ${assignments.join(", ")} where run_id = '${runId}'`,
    );
  }

  async function finish(host: TestHost, runId: string): Promise<RunRecord> {
    const { write } = await host.client();
    // A late renewal makes the lease valid before the gateway knows it.
    await waitFor("the gateway may write to it", () =>
      write({ params: { runId }, body: { text: "on\n" } }).then(
        () => true,
        (error: unknown) => {
          if ((error as { code?: string }).code === "NOT_STEERING") return false;
          throw error;
        },
      ),
    );
    return multiHost.waitForEnd(runId);
  }

  test("each lists the runs of all and stops those of any, and nothing else is stopped", async () => {
    const runIds = await runEverywhere();
    for (const host of multiHost.hosts) {
      const { code, stdout } = await host.holdfast("runs", "list", "--json");
      expect(code).toBe(0);
      const listed = JSON.parse(stdout) as RunRecord[];
      expect(listed.map(({ runId }) => runId).toSorted()).toEqual(runIds.toSorted());
      expect(new Set(listed.map(({ hostId }) => hostId)).size).toBe(3);
    }
    const [a, b, c] = runIds;
    expect(await cat.holdfast("runs", "cancel", a)).toMatchObject({ code: 0, stderr: "" });
    expect(await multiHost.waitForEnd(a)).toMatchObject({
      exit: { reason: "manual-cancel" },
      emptiness: "proven",
    });
    expect(ann.pidsOf("exit 5")).toEqual([]);
    await outcomes.add("stopped from elsewhere", multiHost, {
      [a]: { reason: "manual-cancel" },
      [b]: null,
      [c]: null,
    });
  });

  test("one whose gateway was killed continues with its next, and no other host touches its runs", async () => {
    const [a, b, c] = await runEverywhere();
    const before = await multiHost.record(c);
    await cat.killGateway();
    await multiHost.expectUntouched(c, AGES, gatewaysOf(ann, ben));
    await begin(cat);
    expect(await multiHost.record(c)).toMatchObject({
      state: "running",
      ownerInstanceId: before.ownerInstanceId,
      leaseEpoch: before.leaseEpoch + 1,
    });
    expect(await finish(cat, c)).toMatchObject({ exit: { reason: "exit", code: 5 } });
    await outcomes.add("gateway killed", multiHost, {
      [a]: null,
      [b]: null,
      [c]: { reason: "exit", code: 5 },
    });
  });

  test("one that lost its power finds its runs lost when it is back; no other host touches them, or processes like them", async () => {
    const [a, b, c] = await runEverywhere();
    const before = await multiHost.record(a);
    await ann.powerOff();
    const { root, anchor, processGroupId } = await multiHost.record(b);
    await confuse(a, {
      root_pid: root?.pid ?? null,
      root_start_time: root?.startTime ?? null,
      root_unique_id: root?.uniqueId ?? null,
      anchor_pid: anchor?.pid ?? null,
      anchor_start_time: anchor?.startTime ?? null,
      anchor_unique_id: anchor?.uniqueId ?? null,
      process_group_id: processGroupId,
      pid_namespace: ben.pidNamespace,
    });
    await multiHost.expectUntouched(a, AGES, gatewaysOf(ben, cat));
    expect(await multiHost.record(a)).toMatchObject({ state: "running", leaseEpoch: before.leaseEpoch });

    await ann.boot();
    const like = await ann.bystander();
    await confuse(a, {
      root_pid: like.pid,
      root_start_time: like.startTime,
      root_unique_id: like.uniqueId ?? null,
      process_group_id: like.pid,
      pid_namespace: ann.pidNamespace,
    });
    await begin(ann);
    expect(await multiHost.waitForEnd(a)).toMatchObject({ exit: { reason: "lost", source: "none" } });
    const decisions = (await multiHost.events(a)).flatMap((event) =>
      event.type === "reconcile" ? [event.data] : [],
    );
    expect(decisions.at(-1)).toMatchObject({ row: "other-boot", action: "lose", by: before.ownerInstanceId });
    expect(decisions.slice(0, -1).map(({ action }) => action)).toEqual(["leave", "leave"]);
    expect(await finish(ben, b)).toMatchObject({ exit: { reason: "exit", code: 5 } });
    await outcomes.add("power cut and reboot", multiHost, {
      [a]: { reason: "lost" },
      [b]: { reason: "exit", code: 5 },
      [c]: null,
    });
  });

  test("one that was suspended for a long time continues with its runs", async () => {
    const [a, b, c] = await runEverywhere();
    const before = await multiHost.record(b);
    await ben.suspend();
    await waitFor("its lease has expired", async () => !(await multiHost.leasedFor(b, 0)));
    await multiHost.expectUntouched(b, AGES, gatewaysOf(ann, cat));
    const { ownerInstanceId, leaseEpoch } = before;
    expect(await multiHost.record(b)).toMatchObject({ state: "running", ownerInstanceId, leaseEpoch });

    ben.resume();
    await waitFor("its lease is healthy again", () => multiHost.leasedFor(b, 0));
    expect(await finish(ben, b)).toMatchObject({ exit: { reason: "exit", code: 5 }, leaseEpoch });
    await outcomes.add("stopped for ages", multiHost, {
      [a]: null,
      [b]: { reason: "exit", code: 5 },
      [c]: null,
    });
  });

  test("one that is cut off keeps its runs, and their true ends are recorded afterwards", async () => {
    const [a, b, c] = await runEverywhere();
    const gate = join(ann.home, "gate");
    const killed = await ann.script("sleep 7005");
    const ending = await ann.script(`mkfifo ${gate}; echo up; read line <${gate}; exit 7`);
    const stopped = await ann.script("sleep 7003");
    const paused = await Promise.all(
      (["inserted", "committed"] as const).map(async (step) => {
        const supervisorProcess = await SupervisorProcess.open(ann, `in_${step}`);
        await supervisorProcess.pauseAt(step);
        const mark = join(ann.files, step);
        supervisorProcess.order("spawn", {
          input: { io: "pipe", argv: ["touch", join(ann.home, step)] },
          options: {},
        });
        await supervisorProcess.waitUntilPaused();
        return { supervisorProcess, mark };
      }),
    );
    const [uncommitted, committed] = paused as [(typeof paused)[0], (typeof paused)[0]];

    await ann.unplug();
    for (const { supervisorProcess } of paused) supervisorProcess.resume();
    await ann.run("sh", "-c", `echo go >${gate}`);
    expect(await ann.holdfast("runs", "cancel", stopped)).toMatchObject({ code: 0 });
    const { kill, write } = await ann.client();
    expect(await kill({ params: { runId: killed }, body: { graceMs: 200 } })).toMatchObject({
      outcome: "gone",
    });
    expect(ann.pidsOf("sleep 7005")).toEqual([]);
    await waitFor("what was stopped is gone", () => ann.pidsOf("sleep 7003").length === 0);
    await waitFor("what ended is gone", () => ann.pidsOf("exit 7").length === 0);
    await waitFor("what may run has run", () => existsSync(committed.mark));
    await waitFor("the lease has expired", async () => !(await multiHost.leasedFor(a, 0)));
    await expect(write({ params: { runId: a }, body: { text: "too soon\n" } })).rejects.toThrow();
    const { stdout } = await ben.holdfast("runs", "list");
    expect(stdout).toMatch(new RegExp(`${a}.*unreachable`));
    for (const runId of [a, ending, stopped, killed])
      expect((await multiHost.record(runId)).state).toBe("running");
    expect(ann.pidsOf("exit 5")).not.toEqual([]);
    // The one was refused, the other cannot read what it has committed.
    for (const { supervisorProcess } of paused) await supervisorProcess.receive("failed");
    expect(existsSync(uncommitted.mark)).toBe(false);

    await ann.plug();
    await waitFor("its lease is healthy again", () => multiHost.leasedFor(a, 0), 30_000);
    await multiHost.waitForEnd(ending);
    await multiHost.waitForEnd(stopped);
    await multiHost.waitForEnd(killed);
    expect(existsSync(uncommitted.mark)).toBe(false);
    expect(await finish(ann, a)).toMatchObject({ exit: { reason: "exit", code: 5 } });
    const ofPaused = (await multiHost.records()).filter(({ originInstanceId }) =>
      /_(ins|com)/.test(originInstanceId),
    );
    expect(ofPaused).toHaveLength(2);
    for (const { runId } of ofPaused) await multiHost.waitForEnd(runId);
    for (const { supervisorProcess } of paused) await supervisorProcess.close();
    await outcomes.add("cut off and back", multiHost, {
      [a]: { reason: "exit", code: 5 },
      [b]: null,
      [c]: null,
      [ending]: { reason: "exit", code: 7 },
      [stopped]: { reason: "manual-cancel" },
      [killed]: { reason: "manual-cancel" },
      ...Object.fromEntries(
        ofPaused.map(({ runId, originInstanceId }) => [
          runId,
          originInstanceId === "in_inserted" ? { reason: "spawn-error" } : { reason: "exit", code: 0 },
        ]),
      ),
    });
  });
});
