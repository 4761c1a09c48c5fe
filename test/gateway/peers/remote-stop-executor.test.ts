import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LeaseLost, RunNotFound, StateUnusable, SupervisorClosed } from "../../../src/errors.js";
import { RunLocator } from "../../../src/gateway/peers/run-and-session-locators.js";
import { RemoteStopExecutor } from "../../../src/gateway/peers/remote-stops.js";
import type { RemoteStopResult } from "../../../src/model/gateway.js";
import type { RemoteStopStore } from "../../../src/store/gateways/contract.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import type { Store } from "../../../src/store/store.js";
import type { RunStopResult } from "../../../src/supervisor/api.js";
import type { CancelOptions } from "../../../src/supervisor/check-options.js";
import { newCommand } from "../../contract/gateway-contract.js";
import { LEASE_MS, newRun } from "../../support/store/run-samples.js";
import { temporaryDirectory } from "../../support/temporary-directory.js";
import { waitFor } from "../../support/wait-for.js";

let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let store: Store;
let runId: string;
beforeEach(async () => {
  directory = await temporaryDirectory();
  store = await openSqliteStore({ path: `${directory.path}/store.sqlite` });
  ({ runId } = await store.insertRun(newRun(), LEASE_MS));
  await store.insertRemoteStop(newCommand({ runId }), []);
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await directory[Symbol.asyncDispose]();
});

const asked: CancelOptions[] = [];
const problems: unknown[] = [];

/** An executor of remote stops whose supervisor stops with `stop`. */
function errands(
  stop: () => Promise<RunStopResult>,
  before: Partial<RemoteStopStore> = {},
): RemoteStopExecutor {
  asked.length = 0;
  problems.length = 0;
  return new RemoteStopExecutor({
    supervisor: {
      getRun: (id) => store.getRun(id),
      stop: (_, words = {}) => {
        asked.push(words);
        return stop();
      },
    },
    store: {
      listRemoteStops: (targets) => store.listRemoteStops(targets),
      acceptRemoteStop: (id) => store.acceptRemoteStop(id),
      finishRemoteStop: (id, result, events) => store.finishRemoteStop(id, result, events),
      ...before,
    },
    runLocator: new RunLocator({ store, instanceId: "in_there", hostId: "host", stateId: "st_there" }),
    targets: ["st_there", "in_there"],
    onFailure: (_, cause) => problems.push(cause),
  });
}

const command = () => store.getRemoteStop("req_one");
const gone = async (): Promise<RunStopResult> => ({ outcome: "gone", survivors: [] });

test("a remote stop is executed as requested, and its outcome has an event", async () => {
  await errands(gone).poll();
  await waitFor("it is done", async () => (await command())?.doneAt !== null);
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
  test(`a temporary failure is retried: ${trouble.message}`, async () => {
    let tries = 0;
    const desk = errands(async () => {
      tries += 1;
      if (tries === 1) throw trouble;
      return gone();
    });
    await desk.poll();
    await waitFor("it failed", () => tries === 1);
    await setImmediate();
    expect(await command()).toMatchObject({ doneAt: null, outcome: null });
    await waitFor("it is done", async () => {
      await desk.poll();
      return (await command())?.outcome === "gone";
    });
    expect(problems).toEqual(trouble instanceof SupervisorClosed ? [] : [trouble]);
  });

test("a stop of an unknown run is acknowledged as failed", async () => {
  await errands(() => Promise.reject(new RunNotFound(runId))).poll();
  await waitFor("it is done", async () => (await command())?.doneAt !== null);
  expect(await command()).toMatchObject({ outcome: "failed", error: `no run ${runId}` });
});

test("an executed stop that could not be acknowledged is acknowledged later, with its result", async () => {
  let refuse = true;
  const finishCommand = async (id: string, result: RemoteStopResult): Promise<boolean> => {
    if (refuse) throw new StateUnusable("db", "the database is away");
    return store.finishRemoteStop(id, result, []);
  };
  let stops = 0;
  const desk = errands(
    async () => {
      stops += 1;
      return gone();
    },
    { finishRemoteStop: finishCommand },
  );
  await desk.poll();
  await waitFor("it could not be said", () => problems.length === 1);
  refuse = false;
  await waitFor("it is said", async () => {
    await desk.poll();
    return (await command())?.outcome === "gone";
  });
  expect(stops).toBe(1);
});

test("a remote stop is executed once however often the store is polled", async () => {
  let finish: () => void = () => {};
  const stopping = new Promise<void>((resolve) => (finish = resolve));
  const desk = errands(async () => {
    await stopping;
    return gone();
  });
  await Promise.all([desk.poll(), desk.poll(), desk.poll()]);
  await waitFor("it is under way", () => asked.length > 0);
  await desk.poll();
  expect((await command())?.acceptedAt).not.toBeNull();
  finish();
  await waitFor("it is done", async () => (await command())?.doneAt !== null);
  expect(asked).toHaveLength(1);
});
