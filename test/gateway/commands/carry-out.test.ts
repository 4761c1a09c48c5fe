import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LeaseLost, RunNotFound, StateUnusable, SupervisorClosed } from "../../../src/errors.js";
import { Errands } from "../../../src/gateway/commands/carry-out.js";
import { Whereabouts } from "../../../src/gateway/peers/whereabouts.js";
import type { CommandResult } from "../../../src/store/command-record.js";
import type { CommandStore } from "../../../src/store/command-store.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import type { Store } from "../../../src/store/store.js";
import type { CancelOptions, Stopped } from "../../../src/supervisor/api.js";
import { newCommand } from "../../store/command-contract.js";
import { LEASE_MS, newRun } from "../../store/samples.js";
import { temporaryDirectory } from "../../store/temporary-directory.js";
import { until } from "../real-gateway.js";

let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let store: Store;
let runId: string;
beforeEach(async () => {
  directory = await temporaryDirectory();
  store = await openSqliteStore({ path: `${directory.path}/store.sqlite` });
  ({ runId } = await store.insertRun(newRun(), LEASE_MS));
  await store.insertCommand(newCommand({ runId }), []);
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await directory[Symbol.asyncDispose]();
});

const asked: CancelOptions[] = [];
const problems: unknown[] = [];

/** What carries commands out, with a supervisor that stops like this. */
function errands(stop: () => Promise<Stopped>, before: Partial<CommandStore> = {}): Errands {
  asked.length = 0;
  problems.length = 0;
  return new Errands({
    supervisor: {
      getRun: (id) => store.getRun(id),
      stop: (_, words = {}) => {
        asked.push(words);
        return stop();
      },
    },
    store: {
      listCommands: (targets) => store.listCommands(targets),
      acceptCommand: (id) => store.acceptCommand(id),
      finishCommand: (id, result, events) => store.finishCommand(id, result, events),
      ...before,
    },
    whereabouts: new Whereabouts({ store, instanceId: "in_there", hostId: "host", stateId: "st_there" }),
    targets: ["st_there", "in_there"],
    failing: (_, cause) => problems.push(cause),
  });
}

const command = () => store.getCommand("req_one");
const gone = async (): Promise<Stopped> => ({ outcome: "gone", survivors: [] });

test("a stop goes by the command's words, and its outcome is noted with an event", async () => {
  await errands(gone).look();
  await until("it is done", async () => (await command())?.doneAt !== null);
  expect(asked).toEqual([{ actor: "operator (enough)", requestId: "req_one", graceMs: 1_500 }]);
  expect(await command()).toMatchObject({ outcome: "gone", error: null });
  expect(await store.listEvents({ runId })).toMatchObject([{ type: "command", data: { outcome: "gone" } }]);
});

for (const trouble of [
  new StateUnusable("db", "the database is away"),
  new LeaseLost("run", 1),
  new Error("anything"),
  new SupervisorClosed("in_there", "it leaves"),
])
  test(`what fails for a while is tried again, not given up: ${trouble.message}`, async () => {
    let tries = 0;
    const desk = errands(async () => {
      tries += 1;
      if (tries === 1) throw trouble;
      return gone();
    });
    await desk.look();
    await until("it failed", () => tries === 1);
    await setImmediate();
    expect(await command()).toMatchObject({ doneAt: null, outcome: null });
    await until("it is done", async () => {
      await desk.look();
      return (await command())?.outcome === "gone";
    });
    expect(problems).toEqual(trouble instanceof SupervisorClosed ? [] : [trouble]);
  });

test("a run that is not there is an answer", async () => {
  await errands(() => Promise.reject(new RunNotFound(runId))).look();
  await until("it is done", async () => (await command())?.doneAt !== null);
  expect(await command()).toMatchObject({ outcome: "failed", error: `no run ${runId}` });
});

test("what was carried out and could not be acknowledged is acknowledged later, as it was", async () => {
  let refuse = true;
  const finishCommand = async (id: string, result: CommandResult): Promise<boolean> => {
    if (refuse) throw new StateUnusable("db", "the database is away");
    return store.finishCommand(id, result, []);
  };
  let stops = 0;
  const desk = errands(
    async () => {
      stops += 1;
      return gone();
    },
    { finishCommand },
  );
  await desk.look();
  await until("it could not be said", () => problems.length === 1);
  refuse = false;
  await until("it is said", async () => {
    await desk.look();
    return (await command())?.outcome === "gone";
  });
  expect(stops).toBe(1);
});

test("it is taken up once however often one looks", async () => {
  let finish: () => void = () => {};
  const stopping = new Promise<void>((resolve) => (finish = resolve));
  const desk = errands(async () => {
    await stopping;
    return gone();
  });
  await Promise.all([desk.look(), desk.look(), desk.look()]);
  await until("it is under way", () => asked.length > 0);
  await desk.look();
  expect((await command())?.acceptedAt).not.toBeNull();
  finish();
  await until("it is done", async () => (await command())?.doneAt !== null);
  expect(asked).toHaveLength(1);
});
