import { expect, test } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { SCRIPTED_AGENT } from "../../support/agents/scripted-agent.js";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";

const shared = gatewayAndCliForFile();
const holdfast = (...words: readonly string[]) => shared.batchCli.holdfast(...words);
const json = async <Value>(...words: readonly string[]): Promise<Value> =>
  JSON.parse((await holdfast(...words, "--json")).stdout) as Value;

interface Opened {
  readonly id: string;
  readonly client: GatewayClient;
}

async function open(key: string, parentSessionKey?: string): Promise<Opened> {
  const operator = await shared.gatewayFixture.client();
  const parent = parentSessionKey === undefined ? {} : { parentSessionKey };
  const { session, token } = await operator.openSession({
    body: { key, ...parent, execRules: [{ effect: "allow" }] },
  });
  const socketPath = gatewaySocketPath(shared.gatewayFixture.home);
  return { id: session.id, client: createClient({ socketPath, token }) };
}

async function startRun({ client }: Opened, ...argv: readonly string[]): Promise<string> {
  const { run } = await client.exec({ body: { argv: [...argv], background: true, graceMs: 0 } });
  return run.runId;
}

async function spawnAgent({ client }: Opened, key: string): Promise<string> {
  const argv = ["/bin/sh", "-c", SCRIPTED_AGENT];
  const { session } = await client.acpSpawn({ body: { argv, key, cwd: shared.gatewayFixture.home } });
  return session.sessionId;
}

const stateOf = async (runId: string): Promise<string> => (await shared.gatewayFixture.record(runId)).state;

test("the reason of a close is recorded and shown, with the actor, the time and the lease of the agent", async () => {
  const parent = await open("reasons");
  const id = await spawnAgent(parent, "reasons/agent");
  type Row = ResponseOf<"acpList">["sessions"][number];
  const before = (await json<Row[]>("acp", "list")).find(({ sessionId }) => sessionId === id);
  expect(before).toMatchObject({ leaseState: "open", closedBy: null, closeReason: null });
  const { leaseId } = await shared.gatewayFixture.record(before?.runId ?? "");
  expect(before?.leaseId).toBe(leaseId);
  expect((await holdfast("acp", "show", id)).stdout).toMatch(new RegExp(`\nlease +${leaseId}, open\n`));

  expect(await holdfast("acp", "close", id, "--reason", "superseded\u001b[31m by a plan")).toMatchObject({
    code: 0,
  });
  const closed = {
    closedBy: "operator",
    closeReason: "superseded\u001b[31m by a plan",
    leaseId,
    leaseState: "closed",
  };
  expect(await json("acp", "show", id)).toMatchObject({ session: closed });
  expect(await json("sessions", "status", id)).toMatchObject({ session: closed });
  const rows = await json<{ readonly id: string }[]>("sessions", "list", "--all");
  expect(rows.find((each) => each.id === id)).toMatchObject(closed);
  for (const words of [
    ["acp", "show"],
    ["sessions", "status"],
  ]) {
    const { stdout } = await holdfast(...words, id);
    expect(stdout).toMatch(/\nclosed +\S+ ago by operator: superseded.* by a plan\n/);
    expect(stdout).not.toContain("\u001b");
  }
  expect(await holdfast("sessions", "close", "reasons", "--reason", "")).toMatchObject({ code: 2 });
  expect(await holdfast("sessions", "close", "reasons", "--reason", "done")).toMatchObject({ code: 0 });
  expect(await json("sessions", "status", "reasons")).toMatchObject({ session: { closeReason: "done" } });
});

test("a close lists what stays open; --tree closes the sessions below and stops their runs, and nothing else", async () => {
  const bystander = await shared.gatewayFixture.startRun({ argv: ["sleep", "7041"] });
  const parent = await open("lead");
  const agent = await spawnAgent(parent, "lead/agent");
  const child = await open("lead/build", "lead");
  const grandchild = await open("lead/build/test", "lead/build");
  const other = await open("other");
  const strange = await startRun(other, "sleep", "7042");
  const runs = [
    await startRun(parent, "sleep", "7043"),
    await startRun(child, "sleep", "7044"),
    await startRun(grandchild, "sleep", "7045"),
  ];

  const closed = await holdfast("sessions", "close", "lead");
  expect(closed).toMatchObject({
    code: 0,
    stdout: `${parent.id} is closed; its tokens are no longer valid\n`,
  });
  for (const id of [agent, child.id, grandchild.id]) expect(closed.stderr).toContain(id);
  for (const runId of runs) expect(closed.stderr).toContain(runId);
  expect(closed.stderr).toContain(`to close them too: holdfast sessions close ${parent.id} --tree`);
  for (const runId of runs) expect(await stateOf(runId)).toBe("running");

  // The parent is closed; what it left is still found by its name.
  const taken = await json<ResponseOf<"closeSession">>(
    "sessions",
    "close",
    "lead",
    "--tree",
    "--reason",
    "plan b",
  );
  expect(new Set(taken.children.map((each) => each.sessionId))).toEqual(
    new Set([agent, child.id, grandchild.id]),
  );
  expect(new Set(taken.runs.map((each) => each.runId))).toEqual(new Set(runs));
  for (const { outcome } of taken.children) expect(outcome).toBe("closed");
  for (const { outcome } of taken.runs) expect(outcome).toBe("stopped");
  for (const runId of runs) expect(await stateOf(runId)).toBe("exited");
  expect(await json("sessions", "status", agent)).toMatchObject({
    session: { closeReason: "closed with lead: plan b", leaseState: "closed" },
  });
  expect(await holdfast("sessions", "close", "lead", "--tree")).toMatchObject({ code: 1, stdout: "" });

  expect(await json("sessions", "status", "other")).toMatchObject({ state: "working" });
  for (const runId of [bystander, strange]) expect(await stateOf(runId)).toBe("running");
});

test("a service of a closed tree continues and is named", async () => {
  const parent = await open("host");
  const { run } = await parent.client.exec({
    body: { argv: ["sleep", "7046"], background: true, kind: "service", graceMs: 0 },
  });
  const { code, stderr } = await holdfast("sessions", "close", "host", "--tree");
  expect({ code, stderr }).toEqual({
    code: 3,
    stderr: `holdfast: continues: ${run.runId} (sleep 7046): it is a service: holdfast stop ${run.runId} stops it\n`,
  });
  expect(await stateOf(run.runId)).toBe("running");
});
