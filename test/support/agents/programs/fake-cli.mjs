// A one-shot command-line agent in each supported dialect. The last line of the prompt decides what it does; waiting
// messages may come before it:
//
//   fail      says so in its dialect, and ends with code 3
//   quiet     the same, but with code 0
//   stumble   says something, then fails
//   broken    prints output of another form, writes to stderr, and ends with code 4
//   leave     leaves a process in a session of its own behind
//   wait      says something, then waits for the file $GATE
//   escape    says something that would move the cursor
//
// usage: fake-cli.mjs <dialect> [--resume <id>]
import { spawn } from "node:child_process";
import { existsSync, watch } from "node:fs";
import { dirname } from "node:path";
import { text } from "node:stream/consumers";

const [dialect, , resumed] = process.argv.slice(2);
if (dialect === "--version") {
  console.log("fake-cli 1.2.3");
  process.exit(0);
}
const prompt = await text(process.stdin);
const task = prompt.slice(prompt.lastIndexOf("\n") + 1);
const id = resumed ?? `${dialect}-${process.pid}`;
const line = (document) => process.stdout.write(`${JSON.stringify(document)}\n`);

const dialects = {
  text: { begin: () => {}, say: (said) => console.log(said), end: () => {}, fail: (why) => console.log(why) },
  result: {
    begin: () => line({ type: "system", subtype: "init", session_id: id }),
    say: (said) => line({ type: "assistant", message: { content: [{ type: "text", text: said }] } }),
    end: (said) => line({ type: "result", is_error: false, result: said, session_id: id }),
    fail: (why) => line({ type: "result", is_error: true, result: why, session_id: id }),
  },
  codex: {
    begin: () => line({ type: "thread.started", thread_id: id }),
    say: (said) => line({ type: "item.completed", item: { type: "agent_message", text: said } }),
    end: () => line({ type: "turn.completed" }),
    fail: (why) => line({ type: "turn.failed", error: { message: why } }),
  },
  gemini: {
    begin: () => {},
    say: () => {},
    end: (said) => console.log(JSON.stringify({ session_id: id, response: said }, null, 2)),
    fail: (why) => console.log(JSON.stringify({ session_id: id, error: { message: why } }, null, 2)),
  },
  opencode: {
    begin: () => line({ type: "step_start", sessionID: id }),
    say: (said) => line({ type: "text", sessionID: id, part: { text: said } }),
    end: () => line({ type: "step_finish", sessionID: id }),
    fail: (why) => line({ type: "error", sessionID: id, error: { data: { message: why } } }),
  },
  pi: {
    begin: () => line({ type: "session", id }),
    say: (said) =>
      line({
        type: "message_end",
        message: { role: "assistant", content: [{ type: "text", text: said }], stopReason: "stop" },
      }),
    end: () => line({ type: "agent_end" }),
    fail: (why) =>
      line({
        type: "message_end",
        message: { role: "assistant", content: [], stopReason: "error", errorMessage: why },
      }),
  },
};

const { begin, say, end, fail } = dialects[dialect];
if (task === "broken") {
  console.log("Usage: fake-cli");
  console.error("not logged in, API_KEY=sk-verysecretverysecret1234");
  process.exit(4);
}
begin();
if (task === "stumble") say("working");
if (task === "fail" || task === "quiet" || task === "stumble") {
  fail("the model said no");
  process.exit(task === "quiet" ? 0 : 3);
}
if (task === "leave") spawn("sleep", ["7000"], { detached: true, stdio: "ignore" }).unref();
let said = resumed === undefined ? `you said: ${prompt}` : `again in ${resumed}: ${prompt}`;
if (task === "escape") said = "red: \u001b[31m, home: \u001b[H.";
if (task === "wait") {
  say("working");
  await opened(process.env.GATE);
  said = "done";
}
say(said);
end(said);

function opened(path) {
  return new Promise((resolve) => {
    const watching = watch(dirname(path), look);
    look();
    function look() {
      if (!existsSync(path)) return;
      watching.close();
      resolve();
    }
  });
}
