import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { defaults } from "../../src/defaults.js";
import type { RunRecord } from "../../src/store/run-record.js";
import type { Gateway } from "../cli/field.js";
import { until } from "../io/until.js";
import { Keeper } from "../reconcile/keeper.js";
import { whyNoPostgres } from "../store/postgres/server.js";
import type { Host } from "./host.js";
import { whyNoHosts } from "./network.js";
import { Outcomes } from "./outcomes.js";
import { Site } from "./site.js";

/** Time is the subject here, not how much of it. */
const numbers = {
  leaseMs: 6_000,
  renewMs: 2_000,
  selfFenceMs: 4_000,
  storeBusyMs: 2_000,
  reconcileMs: 1_000,
  silentLookMs: 1_000,
  eventPollMs: 1_000,
};
/** As long as nothing may be heard of a host before others so much as look at its runs. */
const AGES = defaults.hostLostMs + 60_000;
const LASTS = "echo up; read line; exit 5";

const rounds = Array.from({ length: process.env["HOLDFAST_SOAK"] === "1" ? 10 : 1 }, (_, at) => at + 1);

const whyNot = whyNoPostgres ?? whyNoHosts;
if (whyNot !== null) console.log(`hosts are not tested: ${whyNot}`);

vi.setConfig({ testTimeout: 120_000 });

describe.skipIf(whyNot !== null).each(rounds)("of three hosts on one database, round %i,", (round) => {
  const outcomes = new Outcomes();
  let site: Site;
  let ann: Host;
  let ben: Host;
  let cat: Host;
  const gateways = new Map<Host, Gateway>();

  beforeAll(async () => {
    site = await Site.open(["ann", "ben", "cat"]);
    [ann, ben, cat] = site.hosts as [Host, Host, Host];
    await Promise.all(site.hosts.map(begin));
  }, 60_000);
  afterAll(async () => {
    await site[Symbol.asyncDispose]();
    console.log(`three hosts, round ${round}:\n${outcomes.toString()}`);
  });

  /** Whatever a failed test has left. */
  afterEach(async () => {
    for (const host of site.hosts) {
      host.goOn();
      await host.plug();
    }
  });

  async function begin(host: Host): Promise<void> {
    gateways.set(host, await host.gateway(numbers));
  }

  function gatewaysOf(...hosts: readonly Host[]): Gateway[] {
    return hosts.map((host) => gateways.get(host)).filter((gateway) => gateway !== undefined);
  }

  /** One on each, of the same numbers as nearly as it gets. */
  async function runEverywhere(): Promise<[string, string, string]> {
    const started = site.hosts.map((host) => host.script(LASTS, { stdin: "pipe" }));
    return (await Promise.all(started)) as [string, string, string];
  }

  /** From here on the record of one names the processes of another, as if they were on one machine. */
  async function confuse(
    runId: string,
    columns: Readonly<Record<string, string | number | null>>,
  ): Promise<void> {
    const told = Object.entries(columns).map(
      ([name, value]) => `${name} = ${value === null ? "null" : `'${value}'`}`,
    );
    await site.database.query(`update holdfast.runs set ${told.join(", ")} where run_id = '${runId}'`);
  }

  async function finish(host: Host, runId: string): Promise<RunRecord> {
    const { write } = await host.client();
    // A renewal that came through too late for its gateway has made the lease healthy, but not the gateway sure of it.
    await until("it can be steered", () =>
      write({ params: { runId }, body: { text: "on\n" } }).then(
        () => true,
        (error: unknown) => {
          if ((error as { code?: string }).code === "NOT_STEERING") return false;
          throw error;
        },
      ),
    );
    return site.ended(runId);
  }

  test("each lists the runs of all", async () => {
    const runIds = await runEverywhere();
    for (const host of site.hosts) {
      const { code, stdout } = await host.holdfast("runs", "list", "--json");
      expect(code).toBe(0);
      const listed = JSON.parse(stdout) as RunRecord[];
      expect(listed.map(({ runId }) => runId).toSorted()).toEqual(runIds.toSorted());
      expect(new Set(listed.map(({ hostId }) => hostId)).size).toBe(3);
    }
    const [a, b, c] = runIds;
    await outcomes.add("runs on each", site, { [a]: null, [b]: null, [c]: null });
  });

  test("each stops the runs of any, and nothing else is stopped", async () => {
    const [a, b, c] = await runEverywhere();
    expect(await cat.holdfast("runs", "cancel", a)).toMatchObject({ code: 0, stderr: "" });
    expect(await site.ended(a)).toMatchObject({ exit: { reason: "manual-cancel" }, emptiness: "proven" });
    expect(ann.running("exit 5")).toEqual([]);
    await outcomes.add("stopped from elsewhere", site, {
      [a]: { reason: "manual-cancel" },
      [b]: null,
      [c]: null,
    });
  });

  test("one whose gateway was killed goes on with its next, and nobody else comes for its runs", async () => {
    const [a, b, c] = await runEverywhere();
    const before = await site.record(c);
    await cat.killGateway();
    await site.unheardOf(c, AGES, gatewaysOf(ann, ben));
    await begin(cat);
    expect(await site.record(c)).toMatchObject({
      state: "running",
      ownerInstanceId: before.ownerInstanceId,
      leaseEpoch: before.leaseEpoch + 1,
    });
    expect(await finish(cat, c)).toMatchObject({ exit: { reason: "exit", code: 5 } });
    await outcomes.add("gateway killed", site, { [a]: null, [b]: null, [c]: { reason: "exit", code: 5 } });
  });

  test("one that lost its power finds its runs lost when it is back; nobody else touches them, or their like", async () => {
    const [a, b, c] = await runEverywhere();
    const before = await site.record(a);
    await ann.cut();
    const { root, anchor, processGroupId } = await site.record(b);
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
    await site.unheardOf(a, AGES, gatewaysOf(ben, cat));
    expect(await site.record(a)).toMatchObject({ state: "running", leaseEpoch: before.leaseEpoch });

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
    expect(await site.ended(a)).toMatchObject({ exit: { reason: "lost", source: "none" } });
    const told = (await site.events(a)).flatMap((event) => (event.type === "reconcile" ? [event.data] : []));
    expect(told.at(-1)).toMatchObject({ row: "other-boot", action: "lose", by: before.ownerInstanceId });
    expect(told.slice(0, -1).map(({ action }) => action)).toEqual(["leave", "leave"]);
    expect(await finish(ben, b)).toMatchObject({ exit: { reason: "exit", code: 5 } });
    await outcomes.add("power cut and reboot", site, {
      [a]: { reason: "lost" },
      [b]: { reason: "exit", code: 5 },
      [c]: null,
    });
  });

  test("one that stood still for longer than anybody waits goes on with its runs", async () => {
    const [a, b, c] = await runEverywhere();
    const before = await site.record(b);
    await ben.stop();
    await until("its lease has expired", async () => !(await site.leasedFor(b, 0)));
    await site.unheardOf(b, AGES, gatewaysOf(ann, cat));
    const { ownerInstanceId, leaseEpoch } = before;
    expect(await site.record(b)).toMatchObject({ state: "running", ownerInstanceId, leaseEpoch });

    ben.goOn();
    await until("its lease is healthy again", () => site.leasedFor(b, 0));
    expect(await finish(ben, b)).toMatchObject({ exit: { reason: "exit", code: 5 }, leaseEpoch });
    await outcomes.add("stopped for ages", site, { [a]: null, [b]: { reason: "exit", code: 5 }, [c]: null });
  });

  test("one that is cut off keeps its runs, and what became of them meanwhile is true afterwards", async () => {
    const [a, b, c] = await runEverywhere();
    const gate = join(ann.home, "gate");
    const killed = await ann.script("sleep 7005");
    const ending = await ann.script(`mkfifo ${gate}; echo up; read line <${gate}; exit 7`);
    const stopped = await ann.script("sleep 7003");
    const keepers = await Promise.all(
      (["inserted", "committed"] as const).map(async (step) => {
        const keeper = await Keeper.open(ann, `in_${step}`);
        await keeper.stopAt(step);
        const mark = join(ann.files, step);
        keeper.order("spawn", { input: { io: "pipe", argv: ["touch", join(ann.home, step)] }, options: {} });
        await keeper.arrived();
        return { keeper, mark };
      }),
    );
    const [uncommitted, committed] = keepers as [(typeof keepers)[0], (typeof keepers)[0]];

    await ann.unplug();
    for (const { keeper } of keepers) keeper.goOn();
    await ann.do("sh", "-c", `echo go >${gate}`);
    expect(await ann.holdfast("runs", "cancel", stopped)).toMatchObject({ code: 0 });
    const { kill, write } = await ann.client();
    expect(await kill({ params: { runId: killed }, body: { graceMs: 200 } })).toMatchObject({
      outcome: "gone",
    });
    expect(ann.running("sleep 7005")).toEqual([]);
    await until("what was stopped is gone", () => ann.running("sleep 7003").length === 0);
    await until("what ended is gone", () => ann.running("exit 7").length === 0);
    await until("what may run has run", () => existsSync(committed.mark));
    await until("the lease has expired", async () => !(await site.leasedFor(a, 0)));
    await expect(write({ params: { runId: a }, body: { text: "too soon\n" } })).rejects.toThrow();
    const { stdout } = await ben.holdfast("runs", "list");
    expect(stdout).toMatch(new RegExp(`${a}.*unreachable`));
    for (const runId of [a, ending, stopped, killed])
      expect((await site.record(runId)).state).toBe("running");
    expect(ann.running("exit 5")).not.toEqual([]);
    // The one was refused, the other cannot read what it has committed.
    for (const { keeper } of keepers) await keeper.hear("failed");
    expect(existsSync(uncommitted.mark)).toBe(false);

    await ann.plug();
    await until("its lease is healthy again", () => site.leasedFor(a, 0), 30_000);
    await site.ended(ending);
    await site.ended(stopped);
    await site.ended(killed);
    expect(existsSync(uncommitted.mark)).toBe(false);
    expect(await finish(ann, a)).toMatchObject({ exit: { reason: "exit", code: 5 } });
    const ofKeepers = (await site.records()).filter(({ originInstanceId }) =>
      /_(ins|com)/.test(originInstanceId),
    );
    expect(ofKeepers).toHaveLength(2);
    for (const { runId } of ofKeepers) await site.ended(runId);
    for (const { keeper } of keepers) await keeper.close();
    await outcomes.add("cut off and back", site, {
      [a]: { reason: "exit", code: 5 },
      [b]: null,
      [c]: null,
      [ending]: { reason: "exit", code: 7 },
      [stopped]: { reason: "manual-cancel" },
      [killed]: { reason: "manual-cancel" },
      ...Object.fromEntries(
        ofKeepers.map(({ runId, originInstanceId }) => [
          runId,
          originInstanceId === "in_inserted" ? { reason: "spawn-error" } : { reason: "exit", code: 0 },
        ]),
      ),
    });
  });
});
