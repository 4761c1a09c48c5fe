import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import type { DeliverMode, TaskDelivery, TaskRecord } from "../../../src/model/task.js";
import { startTelegramServer } from "../../channels/telegram-server.js";
import { scriptedAgent, shellAgent } from "../../support/agents/acp-fixture.js";
import {
  type GatewayProcess,
  killGateway,
  startGatewayProcess,
  temporaryHomeWithBystander,
} from "../../support/gateway/gateway-process.js";
import { startHttpReceiver, webhookConfig } from "../../support/http-receiver.js";
import { soak } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

const TOKEN = `123456:${"hush".repeat(8)}xyz`;

/** The user's thread: a topic of a group. */
const thread = { chat: "group", channel: "user", address: "-1001234567890/17" } as const;

/**
 * Between two of these steps, the gateway is killed. After `working`, the child ends while no gateway runs. A kill within
 * a delivery, which may repeat a message under its id, is in notifier-crash.test.ts.
 */
const STEPS = ["asked", "started", "answered", "working", "notified"] as const;
type Step = (typeof STEPS)[number];

interface Cell {
  readonly deliver: DeliverMode;
  readonly child: "succeeds" | "crashes";
  /** After these steps the gateway is killed. */
  readonly kills: readonly Step[];
  /** Its task has the policy `state_changes`. It is silent until the operator is told, the gateway is killed, and it continues. */
  readonly stalls?: boolean;
}

const STALL = { acpStallMs: 1_000 };

/** A gateway whose user talks in a thread of Telegram, and whose operator has a webhook. */
async function openScenario() {
  const home = await temporaryHomeWithBystander();
  const telegram = await startTelegramServer();
  const { url, received } = await startHttpReceiver();
  const token = join(home, "token");
  writeFileSync(token, TOKEN, { mode: 0o600 });
  const config = join(home, "config.toml");
  writeFileSync(
    config,
    `[[exec]]
effect = "allow"
[channels.user]
kind = "telegram"
token = { file = "${token}" }
root = "${telegram.config.apiURL}"
allow-http = true
allow-networks = ["127.0.0.0/8"]
${webhookConfig(home, "hook", url)}`,
  );
  vi.stubEnv("HOLDFAST_CONFIG", config);
  /** The texts in the user's thread, oldest first. A message anywhere else fails the test. */
  const inThread = (): string[] =>
    telegram.storage.botMessages.map(({ message }) => {
      expect(message).toMatchObject({ chat_id: "-1001234567890", message_thread_id: 17 });
      return String(message["text"]);
    });
  const hookIds = (): unknown[] => received.map(({ headers }) => headers["webhook-id"]);
  return { home, inThread, hookIds };
}

/** A file that an agent waits for. */
function gate(home: string, name: string): { readonly path: string; readonly open: () => void } {
  const path = join(home, name);
  return { path, open: () => writeFileSync(path, "") };
}

/** The work of a child that is silent before it continues, and again before its end. Changes of its mode are no progress. */
function stallingWork(home: string, work: string) {
  const [watched, resumed] = [gate(home, "watched"), gate(home, "resumed")];
  const resumedMode = "resumed-mode";
  const mode = (currentModeId: string) => ({
    update: { sessionUpdate: "current_mode_update", currentModeId },
  });
  const steps = [
    { wait: watched.path },
    // Ends a stall that began before the operator was to be told.
    mode("watched-mode"),
    { wait: resumed.path },
    mode(resumedMode),
    { wait: work },
    { say: "all built" },
  ];
  return { prompt: JSON.stringify(steps), watched, resumed, resumedMode };
}

async function taskOf(client: GatewayClient, id: string, delivery: TaskDelivery): Promise<TaskRecord> {
  let { task } = await client.getTask({ params: { id } });
  await waitFor(`${id} is ${delivery}`, async () => {
    ({ task } = await client.getTask({ params: { id } }));
    return task.delivery === delivery;
  });
  return task;
}

/** "Let me know when you are done", from the request to the message in the thread. */
async function runCell({ deliver, child, kills, stalls = false }: Cell): Promise<void> {
  const { home, inThread, hookIds } = await openScenario();
  const start = () => startGatewayProcess(home, stalls ? STALL : undefined);
  let gateway: GatewayProcess = await start();
  /** `meanwhile` happens while no gateway runs, if the gateway is killed here. */
  const after = async (step: Step, meanwhile: () => void = () => undefined): Promise<void> => {
    const killed = kills.includes(step);
    if (killed) killGateway(gateway.pid);
    meanwhile();
    if (killed) gateway = await start();
  };
  const environment = { PATH: process.env["PATH"] ?? "", AGENT_LOG: join(home, "boss") };
  const boss = { argv: shellAgent("echo"), cwd: home, key: "boss", environment };
  const { session: parent } = await gateway.client.acpSpawn({ body: boss });
  const { token } = await gateway.client.openSession({ body: { key: "boss" } });
  const ask = (text: string, wait: boolean) =>
    gateway.client.acpPrompt({
      params: { id: parent.sessionId },
      body: { text, origin: thread, wait, background: !wait },
    });

  const { turn: asked } = await ask("HOLD: let me know when you are done", false);
  await waitFor("the parent works", async () => {
    const { task } = await gateway.client.getTask({ params: { id: asked.turnId } });
    return task.status === "running";
  });
  await after("asked");

  // As the parent's agent would do it, with the token of its session.
  const asBoss = createClient({ socketPath: gatewaySocketPath(home), token });
  const work = gate(home, "work");
  const end = child === "crashes" ? "kill -KILL $PPID" : "echo all built";
  const silence = stallingWork(home, work.path);
  const agent = stalls
    ? { argv: [...scriptedAgent], prompt: silence.prompt }
    : { argv: shellAgent(), prompt: `while [ ! -e ${work.path} ]; do sleep 0.02; done; ${end}` };
  const started = await asBoss.acpSpawn({
    body: { ...agent, cwd: home, key: "child", mode: "run", background: true, deliver },
  });
  const childId = started.turn?.turnId ?? expect.fail("no turn");
  const { taskId } = (await gateway.client.getTask({ params: { id: childId } })).task;
  // The operator wants to know, too.
  const addHook = { policy: "done_only", origin: { channel: "hook" } } as const;
  await gateway.client.notifyTask({ params: { id: childId }, body: addHook });
  await after("started");

  gate(home, "boss.go").open();
  await taskOf(gateway.client, asked.turnId, "delivered");
  await after("answered");

  await waitFor("the child works", async () => {
    const { task } = await gateway.client.getTask({ params: { id: childId } });
    return task.status === "running";
  });
  /** The ids of the messages about the stall. The user's thread, which the child inherited, is told of its end only. */
  const stallIds = () => new Set(hookIds().filter((id) => String(id).startsWith(`task-state:${taskId}:`)));
  if (stalls) {
    // After the start, so that the notice of the start does not delay that of the stall.
    await gateway.client.notifyTask({ params: { id: childId }, body: { policy: "state_changes" } });
    silence.watched.open();
    await waitFor("the operator is told of the stall", () => stallIds().size > 0);
    await waitFor("the stall is recorded", async () => {
      const { task } = await gateway.client.getTask({ params: { id: childId } });
      return task.stalledAt !== null;
    });
    killGateway(gateway.pid);
    gateway = await start();
    silence.resumed.open();
    await waitFor("the child continues", async () => {
      const { updates } = await gateway.client.acpWatch({ params: { id: started.session.sessionId } });
      return JSON.stringify(updates).includes(silence.resumedMode);
    });
  }
  // A foreground request in the same thread is answered to its caller, and sends no message.
  const before = inThread();
  const { turn: answered } = await ask("and how are you?", true);
  // The parent reads in its next turn that its child stalled.
  expect(answered.text).toMatch(
    stalls ? /^Notice from .* no progress .*\n\nand how are you\?$/s : /^and how are you\?$/,
  );
  expect(inThread()).toEqual(before);
  await after("working", work.open);

  const isCompletion = (text: string): boolean => !text.includes("let me know");
  await waitFor("the user and the operator are notified", () => {
    return inThread().some(isCompletion) && hookIds().length > stallIds().size;
  });
  await waitFor("every delivery is recorded", async () => {
    const { tasks } = await gateway.client.listTasks({ query: { delivery: "pending" } });
    return tasks.length === 0;
  });
  await after("notified");

  // The last gateway sends repeats, if there are any, before this message.
  await gateway.client.exec({ body: { argv: ["true"], background: true, origin: thread } });
  await waitFor("the last message", () => inThread().some((text) => text.startsWith("Task “true”")));
  const { task: ended } = await gateway.client.getTask({ params: { id: childId } });
  expect(ended.status).toBe(child === "crashes" ? "failed" : "succeeded");
  const result = child === "crashes" ? / failed: / : / succeeded: all built$/;
  expect(stallIds().size).toBe(stalls ? 1 : 0);
  const [answer, completion, last, ...more] = inThread();
  expect(answer).toMatch(/^Task “HOLD: let me know.* succeeded: HOLD: let me know/);
  if (deliver === "user") expect(completion).toMatch(result);
  else expect(completion).toMatch(/^Task “result of “while .* succeeded: Notice from Holdfast/);
  expect(last).toMatch(/^Task “true” succeeded/);
  expect(more).toEqual([]);
  expect(new Set(hookIds())).toEqual(new Set([...stallIds(), `task-terminal:${ended.taskId}`]));
}

const ordinary: readonly Cell[] = [
  { deliver: "user", child: "succeeds", kills: STEPS },
  { deliver: "wake", child: "crashes", kills: ["working"] },
  { deliver: "user", child: "succeeds", kills: ["working"], stalls: true },
];
const all: readonly Cell[] = (["user", "wake"] as const)
  .flatMap((deliver) =>
    (["succeeds", "crashes"] as const).flatMap((child) =>
      [STEPS, [], ...STEPS.map((step) => [step])].map((kills): Cell => ({ deliver, child, kills })),
    ),
  )
  .concat(ordinary.filter(({ stalls }) => stalls === true));

describe("the message that a background child of an agent has ended", () => {
  for (const cell of soak ? all : ordinary)
    test(
      `deliver ${cell.deliver}, the child ${cell.stalls === true ? "stalls, is told once and " : ""}${cell.child}, killed gateways after ${cell.kills.join(", ") || "no step"}: one message in the thread`,
      { timeout: 120_000 },
      () => runCell(cell),
    );
});
