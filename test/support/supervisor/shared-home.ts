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
 * A state directory that several supervisors share, and a bystander with the same command lines as their runs. All other
 * processes with the bystander's token belong to a run. At the end only the bystander is alive.
 */
export class SharedHome implements AsyncDisposable {
  readonly sandbox: Sandbox;
  readonly tokenProcesses: TokenProcesses;
  /** Problems that supervisors in this process reported. */
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

  /** The whole scenario: leader, plain child, one that ignores TERM, one in another session, and a daemon. */
  get scenario(): CommandInput {
    return { io: "pipe", argv: ["sh", scenarioScript, this.tokenProcesses.token] };
  }

  /** A shell script with the token in its command line. */
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

  /** In this process. At the end it detaches from its runs. */
  async supervisor(instanceId: string): Promise<Supervisor> {
    const { home } = this;
    const onProblem = (problem: Problem): unknown => this.problems.push(problem);
    const supervisor = await this.#records.withDatabase(() =>
      openSupervisor({ home, instanceId, onProblem }),
    );
    this.#track({ [Symbol.asyncDispose]: () => supervisor.close({ leaveRuns: true }) });
    return supervisor;
  }

  /** In this process; its first reconciliation is done. */
  async gateway(home = this.home): Promise<Gateway> {
    const onEvent = (event: GatewayEvent): unknown => this.gatewayEvents.push(event);
    const gateway = await this.#records.withDatabase(() => openGateway({ home, onEvent }));
    this.#track({ [Symbol.asyncDispose]: () => gateway.stop() });
    await gateway.ready;
    return gateway;
  }

  /** Through a connection of its own. */
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

  /** All rows and events, to find changes. A renewed lease and an output heartbeat are no changes. */
  dumpStore(): unknown {
    const runs = this.sql("select * from runs order by run_id").map((row) => ({
      ...row,
      lease_expires_at: null,
      last_output_at: null,
      updated_at: null,
    }));
    return { runs, events: this.sql("select * from run_events where type != 'output' order by seq") };
  }

  eventTypes(runId: string): string[] {
    return this.sql("select type from run_events where run_id = ? order by seq", runId).map(({ type }) =>
      String(type),
    );
  }

  /** The recorded decisions about a run. */
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

  /** All runs that this instance started. */
  runsOf(instanceId: string): string[] {
    const found = this.sql("select run_id from runs where origin_instance_id = ?", instanceId);
    return found.map(({ run_id }) => String(run_id));
  }

  /** Number of runs without a recorded end, of all owners or of one. */
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

  /** Kills anchors and launcher of an instance, so that no process cleans up. */
  async stopAnchors(instanceId: string): Promise<void> {
    const anchors = this.anchors(instanceId);
    const launchers = this.launchers(instanceId);
    // Stopped before it is killed, so that it does not clean up in between.
    for (const one of launchers) signalProcess(one, "SIGSTOP");
    for (const one of [...launchers, ...anchors]) signalProcess(one, "SIGKILL");
    await waitFor("they are gone", () => ![...launchers, ...anchors].some(isAlive));
  }

  /** The live processes of runs, and whether they are stopped. */
  survivors(): string[] {
    return this.tokenProcesses
      .ofRuns()
      .map(({ pid, startTime, state }) => `${pid} since ${startTime}${state === "T" ? ", stopped" : ""}`);
  }

  /** Kills the processes of runs that were left alone. */
  async killStrays(): Promise<void> {
    for (const one of this.tokenProcesses.ofRuns()) signalProcess(one, "SIGKILL");
    await this.tokenProcesses.waitUntilGone(5_000);
  }

  /** This machine, as in the columns of a record. */
  async machine(): Promise<Record<"host_id" | "boot_id" | "pid_namespace", string>> {
    const { hostId, bootId, pidNamespace } = await readMachineIdentity(this.home);
    return { host_id: hostId, boot_id: bootId, pid_namespace: pidNamespace };
  }

  /** Deletes ended runs and dead, empty instances with their directories and cgroups. */
  async stopAllRuns(by: Supervisor): Promise<void> {
    await waitFor("anchors and launchers have ended", () => this.sandbox.holdfastProcesses().length === 0);
    await by.retain({ endedKept: 0 });
    // A cgroup is in use until the killed processes in it are reaped.
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

/** Signals a recorded process if it is still the same one. */
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

/** The instance that started the runs and was killed. */
export const FIRST_INSTANCE = "in_first";
/** The instance that reconciles afterwards. */
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

/** Three processes that end on TERM: a run without a record has the default grace period, which is long. */
export async function orphanDocileRun(sharedHome: SharedHome): Promise<string> {
  const { token } = sharedHome.tokenProcesses;
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
  const script = `setsid sleep 100003.${token} & sleep 100001.${token}; :`;
  const { runId } = await supervisorProcess.spawn(sharedHome.script(script));
  await waitFor("all three run", () => sharedHome.tokenProcesses.ofRuns().length === 3);
  await supervisorProcess.kill();
  return runId;
}
