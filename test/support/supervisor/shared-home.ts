import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { type Gateway, type GatewayEvent, openGateway } from "../../../src/gateway/gateway.js";
import { readMachineIdentity } from "../../../src/home/machine-identity.js";
import type { NewRunEvent } from "../../../src/model/run-event.js";
import type { RunRecord } from "../../../src/model/run.js";
import type { CommandInput, Problem, SpawnOptions, Supervisor } from "../../../src/supervisor/api.js";
import { openSupervisor } from "../../../src/supervisor/open.js";
import {
  findByCommandLine,
  isAlive,
  type LiveProcess,
  readProcess,
  signalProcess,
} from "../live-processes.js";
import { currentUser, Sandbox, type SandboxTier, tiers } from "../sandbox.js";
import { type RecordAccess, sqliteRecords, type SqlValue } from "./record-access.js";
import { SupervisorProcess, type SupervisorProcessOptions } from "./supervisor-process.js";
import { scenarioScript, TokenProcesses } from "./token-processes.js";
import { waitFor } from "../wait-for.js";

/**
 * A state directory that several supervisors share, and a bystander with the very command lines of their runs. Whoever
 * else carries the bystander's token belongs to a run. At the end the bystander lives, and nothing else does.
 */
export class SharedHome implements AsyncDisposable {
  readonly sandbox: Sandbox;
  readonly tokenProcesses: TokenProcesses;
  /** What supervisors in this process complained of. */
  readonly problems: Problem[] = [];
  readonly gatewayEvents: GatewayEvent[] = [];
  readonly #records: RecordAccess;
  readonly #open: AsyncDisposable[] = [];

  private constructor(sandbox: Sandbox, tokenProcesses: TokenProcesses, records: RecordAccess) {
    this.sandbox = sandbox;
    this.tokenProcesses = tokenProcesses;
    this.#records = records;
  }

  static async open(
    tier: SandboxTier = tiers.none,
    records: RecordAccess = sqliteRecords,
  ): Promise<SharedHome> {
    const sandbox = Sandbox.create(currentUser, tier);
    try {
      return new SharedHome(sandbox, await TokenProcesses.withScenario(sandbox), records);
    } catch (error) {
      await sandbox[Symbol.asyncDispose]();
      throw error;
    }
  }

  get home(): string {
    return this.sandbox.home;
  }

  /** The whole scenario: leader, plain child, one deaf to TERM, one in another session, and a daemon. */
  get scenario(): CommandInput {
    return { io: "pipe", argv: ["sh", scenarioScript, this.tokenProcesses.token] };
  }

  /** A shell script of the same crowd. */
  script(text: string): CommandInput {
    return { io: "pipe", argv: ["sh", "-c", text, this.tokenProcesses.token] };
  }

  /** In a process of its own. */
  async supervisorProcess(
    instanceId: string,
    options?: SupervisorProcessOptions,
  ): Promise<SupervisorProcess> {
    const { url } = this.#records;
    return this.#track(await SupervisorProcess.open(this.sandbox, instanceId, { url, ...options }));
  }

  /** In this process. It lets go of what it holds at the end. */
  async supervisor(instanceId: string): Promise<Supervisor> {
    const { home } = this;
    const onProblem = (problem: Problem): unknown => this.problems.push(problem);
    const supervisor = await this.#records.withDatabase(() =>
      openSupervisor({ home, instanceId, onProblem }),
    );
    this.#track({ [Symbol.asyncDispose]: () => supervisor.close({ leaveRuns: true }) });
    return supervisor;
  }

  /** In this process; its first round is done. */
  async gateway(home = this.home): Promise<Gateway> {
    const onNews = (news: GatewayEvent): unknown => this.gatewayEvents.push(news);
    const gateway = await this.#records.withDatabase(() => openGateway({ home, onEvent: onNews }));
    this.#track({ [Symbol.asyncDispose]: () => gateway.stop() });
    await gateway.ready;
    return gateway;
  }

  /** By a connection of our own, behind everybody's back. */
  sql(statement: string, ...values: readonly SqlValue[]): Record<string, unknown>[] {
    return this.#records.sql(this.home, statement, ...values);
  }

  updateRecord(runId: string, columns: Readonly<Record<string, SqlValue>>): void {
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
  dumpStore(): unknown {
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
  reconcileDecisions(runId: string): Extract<NewRunEvent, { type: "reconcile" }>["data"][] {
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
    await waitFor(`${runId} has ended`, () => this.column(runId, "state") === "exited", withinMs);
  }

  runDirectory({ originInstanceId, runId }: Pick<RunRecord, "originInstanceId" | "runId">): string {
    return join(this.home, "instances", originInstanceId, "runs", runId);
  }

  anchors(instanceId: string): LiveProcess[] {
    return this.#processesInMode(instanceId, "run");
  }

  launchers(instanceId: string): LiveProcess[] {
    return this.#processesInMode(instanceId, "launch");
  }

  /** Anchors and launcher of an instance at once: nobody cleans up. */
  async stopAnchors(instanceId: string): Promise<void> {
    const anchors = this.anchors(instanceId);
    const launchers = this.launchers(instanceId);
    // Stopped before it is killed, so that it does not clean up in between.
    for (const one of launchers) signalProcess(one, "SIGSTOP");
    for (const one of [...launchers, ...anchors]) signalProcess(one, "SIGKILL");
    await waitFor("they are gone", () => ![...launchers, ...anchors].some(isAlive));
  }

  /** Who of the runs lives, and whether anybody has stopped him. What he runs is his affair. */
  survivors(): string[] {
    return this.tokenProcesses
      .ofRuns()
      .map(({ pid, startTime, state }) => `${pid} since ${startTime}${state === "T" ? ", stopped" : ""}`);
  }

  /** Whoever of a run was rightly left alone. */
  async killStrays(): Promise<void> {
    for (const one of this.tokenProcesses.ofRuns()) signalProcess(one, "SIGKILL");
    await this.tokenProcesses.waitUntilGone(5_000);
  }

  /** Where we are, as records say it. */
  async machine(): Promise<Record<"host_id" | "boot_id" | "pid_namespace", string>> {
    const { hostId, bootId, pidNamespace } = await readMachineIdentity(this.home);
    return { host_id: hostId, boot_id: bootId, pid_namespace: pidNamespace };
  }

  /** Forget what has ended, and with it the instances that are dead and empty: no directory and no cgroup of them stays. */
  async stopAllRuns(by: Supervisor): Promise<void> {
    await waitFor("everybody who ends things has left", () => this.sandbox.holdfastProcesses().length === 0);
    await by.retain({ endedKept: 0 });
    // A cgroup is in use until those who were killed in it are gone altogether.
    await waitFor("dead instances have been removed", async () => {
      await by.reconcile();
      return readdirSync(join(this.home, "instances")).join(" ") === by.instanceId;
    });
  }

  #processesInMode(instanceId: string, mode: string): LiveProcess[] {
    return findByCommandLine(join(this.home, "instances", instanceId)).filter(({ argv }) =>
      argv.includes(mode),
    );
  }

  #track<One extends AsyncDisposable>(one: One): One {
    this.#open.push(one);
    return one;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      for (const one of this.#open.toReversed()) await one[Symbol.asyncDispose]();
      expect(this.tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
      await this.tokenProcesses.waitUntilGone(5_000);
    } finally {
      await this.tokenProcesses[Symbol.asyncDispose]();
      await this.sandbox[Symbol.asyncDispose]();
    }
  }
}

/** Signals the process of a record, if it still is who it was. */
export function signalRecorded(identity: RunRecord["root"], name: NodeJS.Signals): void {
  if (identity === null) throw new Error("its identity is not on record");
  signalProcess(identity, name);
}

export async function waitUntilGone(identity: RunRecord["root"]): Promise<void> {
  await waitFor(
    "it is gone",
    () => identity === null || readProcess(identity.pid)?.startTime !== identity.startTime,
  );
}

/** Started the runs, and is gone. */
export const FIRST_INSTANCE = "in_first";
/** Comes after it. */
export const NEXT_INSTANCE = "in_next";
export const ORPHAN_GRACE_MS = 200;

/** The whole scenario, whose owner was killed and whose lease has expired. */
export async function orphanScenario(sharedHome: SharedHome, options: SpawnOptions = {}): Promise<string> {
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
  const { runId } = await supervisorProcess.spawn(sharedHome.scenario, {
    graceMs: ORPHAN_GRACE_MS,
    ...options,
  });
  await sharedHome.tokenProcesses.waitForAllRoles();
  await supervisorProcess.kill();
  sharedHome.expireLeases();
  return runId;
}

/** Three who go when they are asked: what has no record has the usual grace, which is long. */
export async function orphanDocileRun(sharedHome: SharedHome): Promise<string> {
  const { token } = sharedHome.tokenProcesses;
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
  const script = `setsid sleep 100003.${token} & sleep 100001.${token}; :`;
  const { runId } = await supervisorProcess.spawn(sharedHome.script(script));
  await waitFor("all three are there", () => sharedHome.tokenProcesses.ofRuns().length === 3);
  await supervisorProcess.kill();
  return runId;
}
