import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { openGateway, type Gateway, type GatewayNews } from "../../src/gateway/gateway.js";
import { readMachineIdentity } from "../../src/store/machine.js";
import type { NewRunEvent } from "../../src/store/run-event.js";
import type { RunRecord } from "../../src/store/run-record.js";
import type { CommandInput, Problem, Supervisor } from "../../src/supervisor/api.js";
import { openSupervisor } from "../../src/supervisor/open.js";
import { Crowd, scenario } from "../tree/crowd.js";
import { isAlive, living, look, signal, until, type Living } from "../tree/living.js";
import { anybody, Seat, tiers, type Tier } from "../tree/seat.js";
import { Keeper, type KeeperOptions } from "./keeper.js";
import { ownFile, type Records, type Value } from "./records.js";

/**
 * A state directory that several supervisors share, and a bystander with the very command lines of their runs. Whoever
 * else carries the bystander's token belongs to a run. At the end the bystander lives, and nothing else does.
 */
export class House implements AsyncDisposable {
  readonly seat: Seat;
  readonly crowd: Crowd;
  /** What supervisors in this process complained of. */
  readonly problems: Problem[] = [];
  readonly news: GatewayNews[] = [];
  readonly #records: Records;
  readonly #open: AsyncDisposable[] = [];

  private constructor(seat: Seat, crowd: Crowd, records: Records) {
    this.seat = seat;
    this.crowd = crowd;
    this.#records = records;
  }

  static async open(tier: Tier = tiers.none, records: Records = ownFile): Promise<House> {
    const seat = Seat.take(anybody, tier);
    try {
      return new House(seat, await Crowd.ofScenario(seat), records);
    } catch (error) {
      await seat[Symbol.asyncDispose]();
      throw error;
    }
  }

  get home(): string {
    return this.seat.home;
  }

  /** The whole scenario: leader, plain child, one deaf to TERM, one in another session, and a daemon. */
  get scenario(): CommandInput {
    return { io: "pipe", argv: ["sh", scenario, this.crowd.token] };
  }

  /** A shell script of the same crowd. */
  script(text: string): CommandInput {
    return { io: "pipe", argv: ["sh", "-c", text, this.crowd.token] };
  }

  /** In a process of its own. */
  async keeper(instanceId: string, options?: KeeperOptions): Promise<Keeper> {
    const { url } = this.#records;
    return this.#kept(await Keeper.open(this.seat, instanceId, { url, ...options }));
  }

  /** In this process. It lets go of what it holds at the end. */
  async supervisor(instanceId: string): Promise<Supervisor> {
    const { home } = this;
    const onProblem = (problem: Problem): unknown => this.problems.push(problem);
    const supervisor = await this.#records.around(() => openSupervisor({ home, instanceId, onProblem }));
    this.#kept({ [Symbol.asyncDispose]: () => supervisor.close({ leaveRuns: true }) });
    return supervisor;
  }

  /** In this process; its first round is done. */
  async gateway(home = this.home): Promise<Gateway> {
    const onNews = (news: GatewayNews): unknown => this.news.push(news);
    const gateway = await this.#records.around(() => openGateway({ home, onNews }));
    this.#kept({ [Symbol.asyncDispose]: () => gateway.stop() });
    await gateway.ready;
    return gateway;
  }

  /** By a connection of our own, behind everybody's back. */
  sql(statement: string, ...values: readonly Value[]): Record<string, unknown>[] {
    return this.#records.sql(this.home, statement, ...values);
  }

  edit(runId: string, columns: Readonly<Record<string, Value>>): void {
    const names = Object.keys(columns);
    const assignments = names.map((name) => `${name} = ?`).join(", ");
    this.sql(`update runs set ${assignments} where run_id = ?`, ...Object.values(columns), runId);
  }

  /** All open leases ended that long ago. */
  expireLeases(agoMs = 1, home = this.home): void {
    const at = Math.floor(this.#records.now() - agoMs);
    this.#records.sql(home, "update runs set lease_expires_at = ? where state <> 'exited'", at);
  }

  /** All rows and events, to see whether anything changed. Renewing a lease is no change. */
  everything(): unknown {
    const runs = this.sql("select * from runs order by run_id").map((row) => ({
      ...row,
      lease_expires_at: null,
    }));
    return { runs, events: this.sql("select * from run_events order by seq") };
  }

  eventTypes(runId: string): string[] {
    return this.sql("select type from run_events where run_id = ? order by seq", runId).map(({ type }) =>
      String(type),
    );
  }

  /** What was decided about it, as events tell. */
  decisions(runId: string): Extract<NewRunEvent, { type: "reconcile" }>["data"][] {
    return this.sql(
      "select data from run_events where run_id = ? and type = 'reconcile' order by seq",
      runId,
    ).map(({ data }) => JSON.parse(String(data)) as Extract<NewRunEvent, { type: "reconcile" }>["data"]);
  }

  column(runId: string, name: string): unknown {
    return this.sql(`select ${name} from runs where run_id = ?`, runId)[0]?.[name];
  }

  onlyRun(): string {
    const found = this.sql("select run_id from runs");
    expect(found).toHaveLength(1);
    return String(found[0]?.["run_id"]);
  }

  /** All that this instance has started. */
  runsOf(instanceId: string): string[] {
    const found = this.sql("select run_id from runs where origin_instance_id = ?", instanceId);
    return found.map(({ run_id }) => String(run_id));
  }

  /** How many have no end on record, of all or of one owner's. */
  openRuns(ownerInstanceId: string | null = null): number {
    return this.sql("select owner_instance_id as owner from runs where state <> 'exited'").filter(
      ({ owner }) => ownerInstanceId === null || owner === ownerInstanceId,
    ).length;
  }

  async ended(runId: string, withinMs = 15_000): Promise<void> {
    await until(`${runId} has ended`, () => this.column(runId, "state") === "exited", withinMs);
  }

  runDirectory({ originInstanceId, runId }: Pick<RunRecord, "originInstanceId" | "runId">): string {
    return join(this.home, "instances", originInstanceId, "runs", runId);
  }

  anchors(instanceId: string): Living[] {
    return this.#machinery(instanceId, "run");
  }

  launchers(instanceId: string): Living[] {
    return this.#machinery(instanceId, "launch");
  }

  /** Anchors and launcher of an instance at once: nobody cleans up. */
  async silence(instanceId: string): Promise<void> {
    const anchors = this.anchors(instanceId);
    const launchers = this.launchers(instanceId);
    // Stopped before it is killed, so that it does not clean up in between.
    for (const one of launchers) signal(one, "SIGSTOP");
    for (const one of [...launchers, ...anchors]) signal(one, "SIGKILL");
    await until("they are gone", () => ![...launchers, ...anchors].some(isAlive));
  }

  /** Who of the runs lives, and whether anybody has stopped him. What he runs is his affair. */
  alive(): string[] {
    return this.crowd
      .others()
      .map(({ pid, startTime, state }) => `${pid} since ${startTime}${state === "T" ? ", stopped" : ""}`);
  }

  /** Whoever of a run was rightly left alone. */
  async endOthers(): Promise<void> {
    for (const one of this.crowd.others()) signal(one, "SIGKILL");
    await this.crowd.gone(5_000);
  }

  /** Where we are, as records say it. */
  async machine(): Promise<Record<"host_id" | "boot_id" | "pid_namespace", string>> {
    const { hostId, bootId, pidNamespace } = await readMachineIdentity(this.home);
    return { host_id: hostId, boot_id: bootId, pid_namespace: pidNamespace };
  }

  /** Forget what has ended, and with it the instances that are dead and empty: no directory and no cgroup of them stays. */
  async tidy(by: Supervisor): Promise<void> {
    await until("everybody who ends things has left", () => this.seat.machinery().length === 0);
    await by.retain({ endedKept: 0 });
    // A cgroup is in use until those who were killed in it are gone altogether.
    await until("dead instances have been removed", async () => {
      await by.reconcile();
      return readdirSync(join(this.home, "instances")).join(" ") === by.instanceId;
    });
  }

  #machinery(instanceId: string, mode: string): Living[] {
    return living(join(this.home, "instances", instanceId)).filter(({ argv }) => argv.includes(mode));
  }

  #kept<One extends AsyncDisposable>(one: One): One {
    this.#open.push(one);
    return one;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      for (const one of this.#open.toReversed()) await one[Symbol.asyncDispose]();
      expect(this.crowd.missing(), "the bystander").toEqual([]);
      await this.crowd.gone(5_000);
    } finally {
      await this.crowd[Symbol.asyncDispose]();
      await this.seat[Symbol.asyncDispose]();
    }
  }
}

/** Signals the process of a record, if it still is who it was. */
export function hit(identity: RunRecord["root"], name: NodeJS.Signals): void {
  if (identity === null) throw new Error("its identity is not on record");
  signal(identity, name);
}

export async function goneFromSight(identity: RunRecord["root"]): Promise<void> {
  await until("it is gone", () => identity === null || look(identity.pid)?.startTime !== identity.startTime);
}
