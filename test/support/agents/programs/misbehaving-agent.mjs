// An ACP agent with one fault. Usage: misbehaving-agent.mjs <mode>.
// It leaves a process in a session of its own, as tools of agents do.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const mode = process.argv[2];
spawn("sleep", ["3018"], { detached: true, stdio: "ignore" }).unref();
if (mode === "stays") for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => {});

const say = (message) => writeAll(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const update = (text) => ({
  method: "session/update",
  params: {
    sessionId: "s",
    update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
  },
});
const permission = (id) => ({
  id,
  method: "session/request_permission",
  params: {
    sessionId: "s",
    toolCall: { toolCallId: `t${id}`, title: "again", kind: "execute" },
    options: [
      { optionId: "yes", name: "Yes", kind: "allow_once" },
      { optionId: "no", name: "No", kind: "reject_once" },
    ],
  },
});

/** Modes that handle the prompt in their own way; the others answer it. */
const turns = {
  "never-prompt": () => {},
  "half-frames": () => writeAll('{"jsonrpc":"2.0","id":\n'),
  "giant-frame": async () => {
    const part = "x".repeat(1024 * 1024);
    await writeAll('{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","text":"');
    for (let written = 0; written < 33; written++) await writeAll(part);
    await writeAll('"}}\n');
  },
  unterminated: async () => {
    for (;;) await writeAll("x".repeat(256 * 1024));
  },
  flood: async () => {
    for (let at = 0; ; await sleep(10))
      for (let in10ms = 0; in10ms < 200; in10ms++) await say(update(`${at++}`));
  },
  "answers-without-reason": (id) => say({ id, result: {} }),
  "answers-rubbish": async () => {
    for (;;) await writeAll("Segmentation fault {]\n");
  },
  "floods-non-json": async () => {
    await say(update("before the flood"));
    for (;;) await writeAll(`${"\u001b[31mnot json ".repeat(100)}\n`.repeat(100));
  },
  /** Like adapters that handle SIGTERM: the turn is answered as cancelled; a second one ends the process. */
  "answers-cancelled-on-term": (id) => {
    process.once("SIGTERM", () => void say({ id, result: { stopReason: "cancelled" } }));
    return say(update("ready for SIGTERM"));
  },
  "closes-stdout": () => closeSync(1),
  "closes-stdout-and-exits": () => {
    closeSync(1);
    process.exit(0);
  },
  "answers-and-closes-stdout": async (id) => {
    await done(id);
    closeSync(1);
  },
  "dies-mid-frame": () => {
    writeSync(1, `${JSON.stringify({ jsonrpc: "2.0", ...update("last words") })}\n{"jsonrpc":"2.0","id":`);
    process.exit(3);
  },
  "answers-twice": async (id) => {
    await done(id);
    await say({ id, result: { stopReason: "refusal" } });
  },
  "unknown-methods": async (id) => {
    for (let asked = 0; asked < 500; asked++) await say({ id: `u${asked}`, method: "_vendor/what" });
    await answersSeen(500);
    await done(id);
  },
  "asks-forever": async () => {
    for (let asked = 0; ; asked++) {
      await say(permission(asked));
      await answersSeen(asked + 1);
    }
  },
  "ignores-cancel": () => say(update("busy")),
  "long-turn": async (id) => {
    for (let at = 0; at < 3_000; at++) {
      await say(update(`${at}`));
      if (at % 100 === 99) await sleep(10);
    }
    await done(id);
  },
  /** The second half of the first turn waits for SIGUSR1. */
  "long-turn-in-halves": async (id) => {
    continued ??= new Promise((resolve) => process.once("SIGUSR1", resolve));
    for (let at = 0; at < 3_000; at++) {
      if (at === 1_500) await continued;
      await say(update(`${at}`));
    }
    await done(id);
  },
  "reads-late": async (id, { prompt }) => {
    await say(update(createHash("sha256").update(prompt[0].text).digest("hex")));
    await done(id);
  },
  "in-pieces": async (id) => {
    for (const byte of Buffer.from(`${JSON.stringify({ jsonrpc: "2.0", ...update("grün 🌱") })}\r\n\n`))
      await writeAll(Buffer.from([byte]));
    await done(id);
  },
};
/** Pending until SIGUSR1. */
let continued;
const done = (id) => say({ id, result: { stopReason: "end_turn" } });

let answers = 0;
let onAnswer = () => {};
async function answersSeen(count) {
  while (answers < count) await new Promise((resolve) => (onAnswer = resolve));
}

if (mode === "garbage") {
  for (;;) await writeAll("\u001b]0;pwned\u0007 Traceback (most recent call last) {]\n");
}

const lines = createInterface({ input: process.stdin });
for await (const line of lines) {
  const { id, method, params, error, result } = JSON.parse(line);
  if (method === undefined) {
    if (error?.code === -32601 || result?.outcome !== undefined) answers++;
    onAnswer();
  } else if (method === "initialize") {
    if (mode !== "never-initialize")
      await say({ id, result: { protocolVersion: mode === "wrong-version" ? 2 : 1 } });
  } else if (method === "session/new") {
    if (mode === "reads-late") {
      const alive = setInterval(() => {}, 1000);
      process.once("SIGUSR1", () => {
        lines.resume();
        clearInterval(alive);
      });
      lines.pause();
    }
    if (mode === "asks-and-does-not-read") {
      setInterval(() => {}, 1000);
      process.once("SIGUSR1", () => void say(permission(1)));
      lines.pause();
    }
    if (mode !== "never-new") await say({ id, result: { sessionId: "s" } });
  } else if (method === "session/prompt") {
    console.error("working on", line.slice(0, 500));
    void (turns[mode] ?? done)(id, params);
  }
}
if (mode === "stays" || mode.endsWith("closes-stdout")) await new Promise(() => setInterval(() => {}, 1000));
process.exit(0);

/** Waits like a program that writes to a full pipe. */
function writeAll(text) {
  return new Promise((resolve) => process.stdout.write(text, resolve));
}
