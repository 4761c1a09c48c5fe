import type { Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { Bell } from "../../src/channels/bell.js";
import { createDeliver, openChannels } from "../../src/channels/deliver.js";
import { Notifier } from "../../src/tasks/notifier.js";
import { auditAllTasks } from "../../src/tasks/maintenance-pass.js";
import {
  channelEntry,
  startHttpReceiver,
  startRawReceiver,
  webhookSecret,
} from "../support/http-receiver.js";
import { scaled } from "../support/scale.js";
import { openTaskRegistry } from "../support/task-registry.js";
import { temporaryDirectory } from "../support/temporary-directory.js";

/** Failing receivers, and the error of the last attempt. */
const bad: Readonly<Record<string, readonly [(socket: Socket, elsewhere: string) => void, RegExp]>> = {
  hangs: [() => undefined, /did not complete its answer within 150 ms/],
  drips: [drip, /did not complete its answer within 150 ms/],
  fails: [(socket) => socket.end("HTTP/1.1 500 No\r\ncontent-length: 5\r\n\r\nalas!"), /answered 500: alas!/],
  redirects: [
    (socket, elsewhere) =>
      socket.end(`HTTP/1.1 307 No\r\nlocation: ${elsewhere}\r\ncontent-length: 0\r\n\r\n`),
    /answered with a redirect \(307\)/,
  ],
  breaks: [(socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"), /connection reset/],
};

const mayHaveIt = ["hangs", "drips", "breaks"];

function drip(socket: Socket): void {
  socket.write("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n");
  const timer = setInterval(() => socket.write("."), 10);
  socket.once("close", () => clearInterval(timer));
}

test("a delivery to any failing receiver is retried under one id, finally fails, and shows in the audit", async () => {
  await using directory = await temporaryDirectory();
  await using registry = await openTaskRegistry();
  const file = webhookSecret(directory.path);
  const good = await startHttpReceiver();
  const asked = new Map<string, string[]>();
  const marked = new Map<string, boolean[]>();
  const urls: Record<string, string> = { good: good.url, absent: "http://127.0.0.1:1" };
  for (const [name, [answer]] of Object.entries(bad)) {
    const ids: string[] = [];
    const marks: boolean[] = [];
    asked.set(name, ids);
    marked.set(name, marks);
    urls[name] = await startRawReceiver((socket, said) => {
      ids.push(/^webhook-id: (.*)$/im.exec(said)?.[1] ?? "none");
      marks.push(said.includes('"repeat":true'));
      answer(socket, good.url);
    });
  }
  const entries = Object.entries(urls).map(([name, url]) => {
    const timeout = name === "hangs" || name === "drips" ? 150 : 20_000;
    const said = { url: `${url}/hush-hush`, secrets: [{ file }], "timeout-ms": timeout };
    return [name, channelEntry("webhook", said)] as const;
  });
  const spawner = { spawn: () => Promise.reject(new Error("no program")) };
  const channels = openChannels(Object.fromEntries(entries), { supervisor: spawner, bell: new Bell() });
  // On a busy machine one attempt takes long, and each receiver is to be tried more than once.
  const totalMs = scaled(1_000);
  const notifier = new Notifier({
    store: registry.store,
    deliver: createDeliver(channels, { send: () => Promise.reject(new Error("no session is a target")) }),
    owner: "a",
    limits: { retryMs: 20, maxRetryMs: 100, totalMs },
  });
  const tasks = new Map<string, string>();
  for (const channel of Object.keys(urls)) {
    const { taskId } = await registry.finishTask({ targets: [{ kind: "channel", channel, address: null }] });
    tasks.set(channel, taskId);
  }
  notifier.start();
  onTestFinished(() => notifier.stop());
  for (const [channel, taskId] of tasks) {
    const end = channel === "good" ? "delivered" : "failed";
    await expect
      .poll(async () => (await registry.store.getTask(taskId))?.delivery, { timeout: 20_000 + totalMs })
      .toBe(end);
  }
  for (const [channel, why] of [...reasons(), ["absent", /connection refused/] as const]) {
    const taskId = tasks.get(channel) ?? "";
    const [entry] = await registry.store.listOutbox({ taskId });
    expect(entry).toMatchObject({ status: "failed", error: expect.stringMatching(why) });
    expect(entry?.error).not.toContain("hush");
    expect(entry?.attempts).toBeGreaterThan(1);
    const ids = asked.get(channel);
    if (ids !== undefined) expect([...new Set(ids)]).toEqual([`task-terminal:${taskId}`]);
    // A receiver without a clear answer may have the notification; one that refused has not.
    const [first, ...later] = marked.get(channel) ?? [false];
    expect(first).toBe(false);
    expect(new Set(later)).toEqual(new Set(later.map(() => mayHaveIt.includes(channel))));
    tasks.delete(channel);
    expect(await auditAllTasks(registry.store, Date.now())).toContainEqual(
      expect.objectContaining({ code: "delivery_failed", taskId }),
    );
  }
  // The target of the redirect got nothing.
  expect(good.received.map(({ headers }) => headers["webhook-id"])).toEqual([
    `task-terminal:${tasks.get("good")}`,
  ]);
});

function reasons(): (readonly [string, RegExp])[] {
  return Object.entries(bad).map(([channel, [, why]]) => [channel, why] as const);
}
