import { spawn } from "node:child_process";
import { expect, onTestFinished, test } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { openGateway, type Gateway } from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { openSupervisor } from "../../../src/supervisor/open.js";
import { temporaryHome } from "../../support/supervisor/real-supervisor.js";
import { waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

/** A state directory whose gateway comes and goes; at the end nothing runs, and the bystander does. */
async function openGatewayHome() {
  const home = await temporaryHome();
  const bystander = spawn("sleep", ["3600"], { stdio: "ignore" });
  let gateway: Gateway | null = null;
  onTestFinished(async () => {
    await gateway?.stop({ runs: "terminate", waitMs: 0 });
    const lived = bystander.exitCode === null && bystander.signalCode === null;
    bystander.kill("SIGKILL");
    expect(lived, "the bystander").toBe(true);
  });
  return {
    home,
    start: async (): Promise<GatewayClient> => {
      gateway = await openGateway({ home, onEvent: () => undefined });
      const token = (await readOperatorToken(home)) ?? "";
      await gateway.ready;
      return createClient({ socketPath: gatewaySocketPath(home), token });
    },
    stop: async (): Promise<void> => {
      await gateway?.stop();
      gateway = null;
    },
  };
}

const sleeping = { argv: ["sleep", "3600"], background: true, graceMs: 0 };
const ids = async (client: GatewayClient, query: object): Promise<string[]> =>
  (await client.listRuns({ query })).runs.map(({ runId }) => runId);

test("removed and cleared runs stay hidden in the next gateway, and keep their records", async () => {
  const { start, stop } = await openGatewayHome();
  const client = await start();
  const { run: removed } = await client.exec({ body: sleeping });
  const { run: cleared } = await client.exec({ body: { argv: ["true"] } });
  const { run: open } = await client.exec({ body: sleeping });
  expect(await client.remove({ params: removed })).toEqual({ runId: removed.runId, stopping: true });
  await waitForRunEnd(client, removed.runId);
  expect(await client.clear()).toEqual({ cleared: 1 });
  expect(await client.clear()).toEqual({ cleared: 0 });
  await stop();
  const later = await start();
  expect(await ids(later, { all: "1" })).toEqual([open.runId]);
  expect(new Set(await ids(later, { all: "1", hidden: "1" }))).toEqual(
    new Set([removed.runId, cleared.runId, open.runId]),
  );
  expect(await later.getRun({ params: removed })).toMatchObject({
    exit: { reason: "manual-cancel" },
    emptiness: "proven",
    hiddenAt: expect.any(Number) as number,
  });
});

test("a hidden run whose stop was lost with its gateway is stopped by the next gateway", async () => {
  const { home, start, stop } = await openGatewayHome();
  const client = await start();
  const { run } = await client.exec({ body: sleeping });
  await stop();
  {
    // The state after a gateway was killed between hiding and stopping.
    await using store = await openSqliteStore({ path: `${home}/store.sqlite` });
    expect(await store.hideRuns([run.runId], Date.now())).toBe(1);
  }
  const later = await start();
  expect(await waitForRunEnd(later, run.runId)).toMatchObject({
    exit: { reason: "manual-cancel", actor: "removed" },
    emptiness: "proven",
  });
});

test("kill and remove reach a run that another supervisor holds", async () => {
  const { home, start } = await openGatewayHome();
  const client = await start();
  const other = await openSupervisor({ home });
  onTestFinished(() => other.close());
  const runs = [
    await other.spawn({ io: "pipe", argv: ["sleep", "3600"] }, { graceMs: 0 }),
    await other.spawn({ io: "pipe", argv: ["sleep", "3600"] }, { graceMs: 0 }),
  ] as const;
  expect(await client.kill({ params: { runId: runs[0].runId } })).toMatchObject({ outcome: "gone" });
  await client.remove({ params: { runId: runs[1].runId } });
  expect(await ids(client, { all: "1" })).not.toContain(runs[1].runId);
  for (const run of runs)
    expect((await run.wait()).exit).toMatchObject({ reason: "manual-cancel", actor: "operator" });
});

test("a session clears only its own ended runs", async () => {
  const { home, start } = await openGatewayHome();
  const client = await start();
  const rules = { execRules: [{ effect: "allow" as const }] };
  const { token } = await client.openSession({ body: { key: "parent", ...rules } });
  const child = await client.openSession({ body: { key: "child", parentSessionKey: "parent", ...rules } });
  const as = (key: string): GatewayClient =>
    createClient({ socketPath: gatewaySocketPath(home), token: key });
  const [parents, childs] = [as(token), as(child.token)];
  const { run: own } = await parents.exec({ body: { argv: ["true"] } });
  const { run: childRun } = await childs.exec({ body: { argv: ["true"] } });
  const { run: going } = await parents.exec({ body: sleeping });
  await client.exec({ body: { argv: ["true"] } });
  expect(await parents.clear()).toEqual({ cleared: 1 });
  expect(new Set(await ids(parents, { all: "1" }))).toEqual(new Set([childRun.runId, going.runId]));
  expect(await ids(client, { all: "1" })).not.toContain(own.runId);
  // The parent of a closed session still sees and stops the runs of that session.
  const { run: left } = await childs.exec({ body: sleeping });
  await client.closeSession({ params: { id: child.session.id } });
  expect(await parents.kill({ params: left })).toMatchObject({ outcome: "gone" });
  await waitFor("it is on record", async () => (await parents.getRun({ params: left })).state === "exited");
});
