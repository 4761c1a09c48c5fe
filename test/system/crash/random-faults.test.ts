import { randomInt } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { signalProcess } from "../../support/live-processes.js";
import { SharedHome } from "../../support/supervisor/shared-home.js";
import type { SupervisorProcess } from "../../support/supervisor/supervisor-process.js";

const soak = process.env["HOLDFAST_SOAK"] === "1";
const ROUNDS = soak ? 20 : 1;
const ACTIONS = soak ? 120 : 60;
/** Open runs at a time, with three processes each. */
const MOST = 12;
const graceMs = 100;
const SEED = Number(process.env["HOLDFAST_SEED"] ?? randomInt(2 ** 31));

/** Numbers from 0 up to `below`, the same for the same seed. */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** Random faults for three supervisors of one state directory, and how often each fault occurred. */
class Chaos {
  readonly #home: SharedHome;
  readonly #throw: (below: number) => number;
  readonly #supervisors: SupervisorProcess[] = [];
  readonly #stopped = new Set<SupervisorProcess>();
  readonly actions: Record<string, number> = {};

  constructor(sharedHome: SharedHome, seed: number) {
    this.#home = sharedHome;
    this.#throw = dice(seed);
  }

  async begin(): Promise<void> {
    for (const id of ["in_a", "in_b", "in_c"]) this.#supervisors.push(await this.#home.supervisorProcess(id));
  }

  async action(): Promise<void> {
    const actions = Object.entries(this.#actions());
    const [name, act] = actions[this.#throw(actions.length)] ?? ["", null];
    this.actions[name] = (this.actions[name] ?? 0) + 1;
    await act?.();
    await setTimeout(this.#throw(60));
  }

  async end(): Promise<void> {
    for (const supervisorProcess of this.#supervisors) await supervisorProcess.kill();
  }

  #actions(): Record<string, () => Promise<void>> {
    const at = this.#throw(this.#supervisors.length);
    const supervisorProcess = this.#supervisors[at];
    if (supervisorProcess === undefined) return {};
    const open = this.#home.sql("select run_id from runs where state <> 'exited'");
    const runId = String(open[this.#throw(Math.max(1, open.length))]?.["run_id"]);
    const spawn = async (): Promise<void> => {
      if (open.length < MOST)
        supervisorProcess.order("spawn", { input: this.#tree(), options: this.#options() });
    };
    const reconcile = async (): Promise<void> => supervisorProcess.order("reconcile", { scope: {} });
    return {
      spawn,
      "spawn again": spawn,
      reconcile,
      "reconcile again": reconcile,
      cancel: async () => supervisorProcess.cancel(runId),
      "kill an anchor": async () => {
        const anchors = this.#home.anchors("in_");
        const one = anchors[this.#throw(Math.max(1, anchors.length))];
        if (one !== undefined) signalProcess(one, "SIGKILL");
      },
      "kill a supervisor": async () => {
        await supervisorProcess.kill();
        this.#stopped.delete(supervisorProcess);
        const next = await this.#home.supervisorProcess(supervisorProcess.instanceId);
        next.order("reconcile", { scope: {} });
        this.#supervisors[at] = next;
      },
      "stop or continue a supervisor": async () => {
        if (this.#stopped.delete(supervisorProcess)) return supervisorProcess.resume();
        this.#stopped.add(supervisorProcess);
        return supervisorProcess.suspend();
      },
      "leases expire": async () => this.#expireLeases(1),
      "leases have long expired": async () => this.#expireLeases(defaults.stalledOwnerMs + 1_000),
    };
  }

  /** A supervisor that was stopped during a write locks the database until it is continued. */
  #expireLeases(agoMs: number): void {
    try {
      this.#home.expireLeases(agoMs);
    } catch (error) {
      if (this.#stopped.size === 0 || !String(error).includes("database is locked")) throw error;
      for (const supervisorProcess of this.#stopped) supervisorProcess.resume();
      this.#stopped.clear();
      this.#home.expireLeases(agoMs);
    }
  }

  #tree(): ReturnType<SharedHome["script"]> {
    const { token } = this.#home.tokenProcesses;
    return this.#home.script(`setsid sleep 100003.${token} & sleep 100001.${token}; :`);
  }

  #options(): object {
    return {
      graceMs,
      ownerLossMs: this.#throw(2) === 0 ? 100 : 60_000,
      onOrphan: this.#throw(2) === 0 ? "adopt" : "terminate",
      kind: this.#throw(4) === 0 ? "service" : "task",
    };
  }
}

test("after any faults, each run has one end, no process is left and no other was signalled", async () => {
  const reports: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const seed = SEED + round;
    await using sharedHome = await SharedHome.open();
    const chaos = new Chaos(sharedHome, seed);
    await chaos.begin();
    for (let action = 0; action < ACTIONS; action++) await chaos.action();
    await chaos.end();

    sharedHome.expireLeases();
    const { supervisor } = await sharedHome.gateway();
    const deadline = performance.now() + 20_000;
    while (sharedHome.openRuns() > 0 && performance.now() < deadline) {
      for (const { runId } of await supervisor.listRuns({ states: ["starting", "running"] }))
        await supervisor.run(runId)?.cancel();
      await setTimeout(50);
      await supervisor.reconcile();
    }
    const what = `seed ${seed}`;
    expect(sharedHome.openRuns(), what).toBe(0);
    expect(sharedHome.tokenProcesses.ofRuns(), what).toEqual([]);
    const ends = sharedHome.sql(
      `select runs.run_id, exit_reason, emptiness, count(seq) as times from runs
       left join run_events on run_events.run_id = runs.run_id and type = 'exit'
       group by runs.run_id having times <> 1 or emptiness <> 'proven'`,
    );
    expect(ends, what).toEqual([]);
    // One supervisor per epoch.
    const doubles = sharedHome.sql(
      `select run_id, data ->> 'epoch' as epoch, count(*) as times from run_events
       where type = 'reconcile' and data ->> 'action' <> 'leave' group by run_id, epoch having times <> 1`,
    );
    expect(doubles, what).toEqual([]);
    const once = sharedHome.dumpStore();
    await supervisor.reconcile();
    expect(sharedHome.dumpStore(), what).toEqual(once);
    reports.push(`${sharedHome.sql("select run_id from runs").length} runs`);
    if (round === 0) console.log(`chaos, ${what}:`, JSON.stringify(chaos.actions), reports[0]);
    await sharedHome.stopAllRuns(supervisor);
  }
});
