import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import type { DeliverMode, TaskDelivery, TaskRecord } from "../../../src/model/task.js";
import { startTelegramServer } from "../../channels/telegram-server.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import {
  type GatewayProcess,
  killGateway,
  startGatewayProcess,
  temporaryHomeWithBystander,
} from "../../support/gateway/gateway-process.js";
import { startHttpReceiver } from "../../support/http-receiver.js";
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
}

/** A gateway whose user talks in a thread of Telegram, and whose operator has a webhook. */
async function openScenario() {
  const home = await temporaryHomeWithBystander();
  const telegram = await startTelegramServer();
  const { url, received } = await startHttpReceiver();
  const [token, secret] = [join(home, "token"), join(home, "secret")];
  writeFileSync(token, TOKEN, { mode: 0o600 });
  writeFileSync(secret, `whsec_${Buffer.alloc(32, 7).toString("base64")}`, { mode: 0o600 });
  const local = 'allow-http = true\nallow-networks = ["127.0.0.0/8"]';
  const config = join(home, "config.toml");
  writeFileSync(
    config,
    `[[exec]]
effect = "allow"
[channels.user]
kind = "telegram"
token = { file = "${token}" }
root = "${telegram.config.apiURL}"
${local}
[channels.hook]
kind = "webhook"
url = "${url}"
secrets = [{ file = "${secret}" }]
${local}
`,
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

async function taskOf(client: GatewayClient, id: string, delivery: TaskDelivery): Promise<TaskRecord> {
  let { task } = await client.getTask({ params: { id } });
  await waitFor(`${id} is ${delivery}`, async () => {
    ({ task } = await client.getTask({ params: { id } }));
    return task.delivery === delivery;
  });
  return task;
}

/** "Let me know when you are done", from the request to the message in the thread. */
async function runCell({ deliver, child, kills }: Cell): Promise<void> {
  const { home, inThread, hookIds } = await openScenario();
  let gateway: GatewayProcess = await startGatewayProcess(home);
  /** `meanwhile` happens while no gateway runs, if the gateway is killed here. */
  const after = async (step: Step, meanwhile: () => void = () => undefined): Promise<void> => {
    const killed = kills.includes(step);
    if (killed) killGateway(gateway.pid);
    meanwhile();
    if (killed) gateway = await startGatewayProcess(home);
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
  const started = await asBoss.acpSpawn({
    body: {
      ...{ argv: shellAgent(), cwd: home, key: "child", mode: "run", background: true, deliver },
      prompt: `while [ ! -e ${work.path} ]; do sleep 0.02; done; ${end}`,
    },
  });
  const childId = started.turn?.turnId ?? expect.fail("no turn");
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
  // A foreground request in the same thread is answered to its caller, and sends no message.
  const before = inThread();
  expect((await ask("and how are you?", true)).turn.text).toBe("and how are you?");
  expect(inThread()).toEqual(before);
  await after("working", work.open);

  const isCompletion = (text: string): boolean => !text.includes("let me know");
  await waitFor("the user and the operator are notified", () => {
    return inThread().some(isCompletion) && hookIds().length > 0;
  });
  await waitFor("every delivery is recorded", async () => {
    const { tasks } = await gateway.client.listTasks({ query: { delivery: "pending" } });
    return tasks.length === 0;
  });
  await after("notified");

  // What the last gateway would send again, it sends before this.
  await gateway.client.exec({ body: { argv: ["true"], background: true, origin: thread } });
  await waitFor("the last message", () => inThread().some((text) => text.startsWith("Task “true”")));
  const { task: ended } = await gateway.client.getTask({ params: { id: childId } });
  expect(ended.status).toBe(child === "crashes" ? "failed" : "succeeded");
  const result = child === "crashes" ? / failed: / : / succeeded: all built$/;
  const [answer, completion, last, ...more] = inThread();
  expect(answer).toMatch(/^Task “HOLD: let me know.* succeeded: HOLD: let me know/);
  if (deliver === "user") expect(completion).toMatch(result);
  else expect(completion).toMatch(/^Task “result of “while .* succeeded: Notice from Holdfast/);
  expect(last).toMatch(/^Task “true” succeeded/);
  expect(more).toEqual([]);
  expect(new Set(hookIds())).toEqual(new Set([`task-terminal:${ended.taskId}`]));
}

const ordinary: readonly Cell[] = [
  { deliver: "user", child: "succeeds", kills: STEPS },
  { deliver: "wake", child: "crashes", kills: ["working"] },
];
const all: readonly Cell[] = (["user", "wake"] as const).flatMap((deliver) =>
  (["succeeds", "crashes"] as const).flatMap((child) =>
    [STEPS, [], ...STEPS.map((step) => [step])].map((kills): Cell => ({ deliver, child, kills })),
  ),
);

describe("the message that a background child of an agent has ended", () => {
  for (const cell of soak ? all : ordinary)
    test(
      `deliver ${cell.deliver}, the child ${cell.child}, killed gateways after ${cell.kills.join(", ") || "no step"}: one message in the thread`,
      { timeout: 120_000 },
      () => runCell(cell),
    );
});
