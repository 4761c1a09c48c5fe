// The steps of an ACP turn that no gateway can leave out, for a floor: a request over HTTP, a commit before the prompt is
// sent, an agent behind another process, and a commit of each chunk of updates, of which the last also ends the turn. It
// checks nothing, inspects no process and would lose the agent in a crash.
//
// Usage: node minimal-acp-gateway.mjs <socket> <database> <agent> [arguments…]
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { DatabaseSync } from "@photostructure/sqlite";

const [socket, path, ...argv] = process.argv.slice(2);
const db = new DatabaseSync(path);
db.exec(`pragma journal_mode = wal; pragma synchronous = normal;
  create table turns (id integer primary key, prompt text, result text);
  create table updates (seq integer primary key, turn integer, data text);`);
const insertTurn = db.prepare("insert into turns (id, prompt) values (?, ?)");
const endTurn = db.prepare("update turns set result = ? where id = ?");
const insertUpdates = db.prepare("insert into updates (turn, data) select ?, value from json_each(?)");

// One process relays each direction, as the anchor does.
const agent = spawn("sh", ["-c", 'cat | "$@" | cat', "sh", ...argv], { stdio: ["pipe", "pipe", "inherit"] });
const waiting = new Map();
let last = 0;
let rest = "";
agent.stdout.setEncoding("utf8").on("data", (chunk) => {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop();
  const updates = [];
  let answer = null;
  for (const line of lines) {
    const message = JSON.parse(line);
    if (message.method === undefined) answer = message;
    else updates.push(JSON.stringify(message.params.update));
  }
  db.exec("begin immediate");
  if (updates.length > 0) insertUpdates.run(last, `[${updates.join(",")}]`);
  if (answer !== null) endTurn.run(JSON.stringify(answer.result), answer.id);
  db.exec("commit");
  if (answer !== null) waiting.get(answer.id)?.(answer.result);
});

function ask(method, params) {
  const id = ++last;
  insertTurn.run(id, JSON.stringify(params));
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    agent.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
  });
}

await ask("initialize", { protocolVersion: 1 });
await ask("session/new", { cwd: "/", mcpServers: [] });
createServer((request, response) => void serve(request, response)).listen(socket, () => console.log("ready"));

async function serve(request, response) {
  const { text: words } = JSON.parse(await text(request));
  const result = await ask("session/prompt", { sessionId: "s", prompt: [{ type: "text", text: words }] });
  response.end(JSON.stringify(result));
}
