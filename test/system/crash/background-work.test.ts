import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import type { TaskRecord } from "../../../src/model/task.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { cliPath } from "../../support/cli/cli-fixture.js";
import {
  killGateway,
  startGatewayProcess,
  temporaryHomeWithBystander,
} from "../../support/gateway/gateway-process.js";
import { waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { startHttpReceiver, webhookConfig } from "../../support/http-receiver.js";
import { findProcessesOfRun } from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

type Turn = ResponseOf<"acpHistory">["turns"][number];

const params = { id: "one" };

async function newestTurn(client: GatewayClient): Promise<Turn> {
  return (await client.acpHistory({ params })).turns[0] ?? expect.fail("no turn");
}

function endOfNewestTurn(client: GatewayClient): Promise<Turn> {
  return waitFor("the turn has ended", async () => {
    const turn = await newestTurn(client);
    return turn.state === "ended" && turn;
  });
}

test("a cancel that the agent got before a kill -9 of the gateway is not sent again, and keeps its time", async () => {
  const home = await temporaryHomeWithBystander();
  const log = join(home, "agent.log");
  const lines = (line: string): number =>
    existsSync(log)
      ? readFileSync(log, "utf8")
          .split("\n")
          .filter((each) => each === line).length
      : 0;
  let { client, pid } = await startGatewayProcess(home);
  const environment = { PATH: process.env["PATH"] ?? "", AGENT_LOG: log };
  const { session } = await client.acpSpawn({
    body: { argv: shellAgent("deaf"), cwd: home, key: "one", environment },
  });
  /** Kills the gateway after the agent got the cancel of a turn, which ends when the returned function is called. */
  const killInMidCancel = async (name: string, cancels: number) => {
    const go = join(home, name);
    const text = `while [ ! -e ${go} ]; do sleep 0.02; done; echo ${name}`;
    await client.acpPrompt({ params, body: { text, wait: false } });
    await waitFor("the agent works", async () => (await newestTurn(client)).state === "running");
    client.acpCancel({ params, body: {} }).catch(() => undefined);
    await waitFor("the agent got the cancel", () => lines("cancel") === cancels);
    const sent = await waitFor("the cancel is recorded as sent", async () => {
      const { cancel } = await newestTurn(client);
      return cancel?.sentAt !== undefined && cancel;
    });
    killGateway(pid);
    return { sent, endTurn: () => writeFileSync(go, "") };
  };

  const first = await killInMidCancel("first", 1);
  ({ client, pid } = await startGatewayProcess(home));
  expect(await newestTurn(client)).toMatchObject({ state: "running", cancel: first.sent });
  first.endTurn();
  const firstEnd = await endOfNewestTurn(client);
  expect(firstEnd).toMatchObject({ stopReason: "end_turn", text: "first\n", cancel: first.sent });

  const second = await killInMidCancel("second", 2);
  second.endTurn();
  ({ client, pid } = await startGatewayProcess(home));
  const secondEnd = await endOfNewestTurn(client);
  expect(secondEnd).toMatchObject({ stopReason: "end_turn", text: "second\n", cancel: second.sent });

  // The agent reads its input in order: a cancel that was sent again would be in the log before this prompt.
  await client.acpPrompt({ params, body: { text: "echo last", wait: true } });
  expect([lines("cancel"), lines("prompt echo last")]).toEqual([2, 1]);
  expect(await newestTurn(client)).toMatchObject({ text: "last\n", outcome: "completed", cancel: null });
  await client.acpClose({ params });
  expect(await waitForRunEnd(client, session.runId ?? "")).toMatchObject({ emptiness: "proven" });
  expect(await findProcessesOfRun(session.runId ?? "")).toEqual([]);
});

test("after a kill -9, an agent for one run that was starting is closed, and waiting messages are sent or dismissed", async () => {
  const home = await temporaryHomeWithBystander();
  let available = false;
  const { url, received } = await startHttpReceiver((_, response) => {
    response.statusCode = available ? 200 : 503;
    response.end();
  });
  const config = join(home, "config.toml");
  writeFileSync(config, webhookConfig(home, "hook", url));
  vi.stubEnv("HOLDFAST_CONFIG", config);
  const numbers = { deliveryRetryMs: 600_000, deliveryRetryMostMs: 600_000, acpUnusedRunMs: 100 };
  let { client, pid } = await startGatewayProcess(home, numbers);
  const getTask = async (id: string): Promise<TaskRecord> => (await client.getTask({ params: { id } })).task;
  const waitingMessage = async (): Promise<string> => {
    const attempts = received.length;
    const body = { label: "build", origin: { channel: "hook" } };
    const { taskId } = (await client.createTask({ body })).task;
    await client.finishTask({ params: { id: taskId }, body: { status: "succeeded" } });
    await waitFor("it was tried", () => received.length > attempts);
    return taskId;
  };
  const [sent, dismissed] = [await waitingMessage(), await waitingMessage()];

  // It never answers `initialize`.
  client
    .acpSpawn({
      body: { argv: ["sh", "-c", "cat >/dev/null"], cwd: home, key: "one", mode: "run", prompt: "work" },
    })
    .catch(() => undefined);
  const { runId } = await waitFor("the agent starts", async () => {
    const found = (await client.acpList({ query: {} })).sessions.find(({ key }) => key === "one");
    return found !== undefined && found.runId !== null && found;
  });
  await waitFor("its process runs", async () => (await findProcessesOfRun(runId ?? "")).length > 0);
  killGateway(pid);
  ({ client, pid } = await startGatewayProcess(home, numbers));

  await waitFor(
    "the session is closed",
    async () => (await client.acpShow({ params })).session.state === "closed",
  );
  expect(await waitForRunEnd(client, runId ?? "")).toMatchObject({ emptiness: "proven" });
  expect(await findProcessesOfRun(runId ?? "")).toEqual([]);

  expect([(await getTask(sent)).delivery, (await getTask(dismissed)).delivery]).toEqual([
    "pending",
    "pending",
  ]);
  available = true;
  expect(await client.dismissTask({ params: { id: dismissed } })).toMatchObject({
    messages: 1,
    task: { delivery: "not_applicable" },
  });
  expect(await client.retryTask({ params: { id: sent } })).toMatchObject({ messages: 1 });
  await waitFor("it is delivered", async () => (await getTask(sent)).delivery === "delivered");
  const ids = received.map(({ headers }) => headers["webhook-id"]);
  const id = `task-terminal:${sent}`;
  expect(ids).toEqual([id, `task-terminal:${dismissed}`, id]);
});

test("acp close without a gateway ends the agent, and the next gateway closes the session with its reason", async () => {
  const home = await temporaryHomeWithBystander();
  const { client, pid } = await startGatewayProcess(home);
  const { session } = await client.acpSpawn({ body: { argv: shellAgent(), cwd: home, key: "one" } });
  const runId = session.runId ?? "";
  killGateway(pid);
  const close = ["acp", "close", "one", "--reason", "not needed"];
  const env = { ...process.env, HOLDFAST_HOME: home };
  const closed = await promisify(execFile)(process.execPath, [cliPath, ...close], { env });
  expect(closed.stdout).toContain("none of its processes is left");
  expect(closed.stderr).toContain("one is recorded as closing; the next gateway closes it");
  expect(await findProcessesOfRun(runId)).toEqual([]);
  const next = await startGatewayProcess(home);
  const shown = await waitFor("the session is closed", async () => {
    const { session: row } = await next.client.acpShow({ params: { id: session.sessionId } });
    return row.state === "closed" && row.closeReason !== null && row;
  });
  expect(shown).toMatchObject({ closeReason: "not needed", closedBy: expect.stringMatching(/^cli/) });
});
