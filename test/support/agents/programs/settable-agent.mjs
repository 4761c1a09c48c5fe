// An ACP agent with modes, models, config options and slash commands. Its answer to a prompt is its settings as JSON;
// the prompt "commands" announces other commands, "mode <id>" changes the mode by itself. Arguments:
//   old: models and modes as agents offered them before config options
//   none: nothing to set
//   deaf: it refuses every change
//   fewer: after a restart, it offers only one model
// Its sessions are files in the directory AGENT_SESSIONS, if that is set, and outlive it.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [variant = "new"] = process.argv.slice(2);
const directory = process.env["AGENT_SESSIONS"];
const tell = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

const MODES = ["ask", "code", "plan"];
const MODELS = ["small", "large"];
const named = (id) => ({ name: id[0].toUpperCase() + id.slice(1), description: `the ${id} one` });

let session = null;
const fresh = (id, cwd) => ({ id, cwd, turns: [], mode: "ask", model: "small", effort: "low", web: false });

function load(id) {
  const path = join(directory ?? "/nonexistent", `${id}.json`);
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : null;
}

function save() {
  if (directory === undefined) return;
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, `${session.id}.json`), JSON.stringify(session));
}

const select = (id, category, currentValue, values) => ({
  ...{ type: "select", id, ...named(id), category, currentValue },
  options: values.map((value) => ({ value, ...named(value) })),
});

const models = () => (variant === "fewer" && session.turns.length > 0 ? ["small"] : MODELS);
const configOptions = () => [
  select("model", "model", session.model, models()),
  select("mode", "mode", session.mode, MODES),
  select("effort", "thought_level", session.effort, session.model === "large" ? ["low", "high"] : ["low"]),
  { type: "boolean", id: "web", name: "Web search", currentValue: session.web },
];

function offer() {
  if (variant === "none") return {};
  if (variant !== "old") return { configOptions: configOptions() };
  return {
    modes: { currentModeId: session.mode, availableModes: MODES.map((id) => ({ id, ...named(id) })) },
    models: {
      currentModelId: session.model,
      availableModels: MODELS.map((modelId) => ({ modelId, ...named(modelId) })),
    },
  };
}

const update = (sessionUpdate, more) =>
  tell({ method: "session/update", params: { sessionId: session.id, update: { sessionUpdate, ...more } } });
const commands = (...names) =>
  update("available_commands_update", {
    availableCommands: names.map((name) => ({ name, description: `does ${name}`, input: { hint: "what" } })),
  });
const say = (text) => update("agent_message_chunk", { content: { type: "text", text } });

const opened = (found, more = {}) => {
  if (found === null) return { error: { code: -32002, message: "Session not found" } };
  session = found;
  save();
  return { result: { ...more, ...offer() } };
};
const newId = () =>
  `own-${process.pid}-${directory === undefined ? 0 : (readdirSync(directory).length ?? 0)}`;

const requests = {
  initialize: () => ({
    result: {
      protocolVersion: 1,
      agentCapabilities: {
        loadSession: directory !== undefined,
        sessionCapabilities:
          directory === undefined ? {} : { list: {}, resume: {}, fork: {}, additionalDirectories: {} },
      },
    },
  }),
  "session/new": ({ cwd, additionalDirectories }) => {
    if (directory !== undefined) mkdirSync(directory, { recursive: true });
    const id = newId();
    const made = opened({ ...fresh(id, cwd), additionalDirectories }, { sessionId: id });
    setImmediate(() => commands("plan", "review"));
    return made;
  },
  "session/resume": ({ sessionId }) => opened(load(sessionId)),
  "session/load": ({ sessionId }) => {
    const found = load(sessionId);
    if (found === null) return opened(null);
    session = found;
    for (const turn of found.turns) say(turn);
    return opened(found);
  },
  "session/fork": ({ sessionId }) => {
    const found = load(sessionId);
    const id = newId();
    return found === null ? opened(null) : opened({ ...found, id }, { sessionId: id });
  },
  "session/list": ({ cwd, cursor }) => {
    const all = directory === undefined || !existsSync(directory) ? [] : readdirSync(directory).sort();
    const found = all.map((name) => load(name.slice(0, -5))).filter((each) => !cwd || each.cwd === cwd);
    // One per page.
    const at = Number(cursor ?? 0);
    const sessions = found.slice(at, at + 1).map((each) => ({
      ...{
        sessionId: each.id,
        cwd: each.cwd,
        title: each.turns[0] ?? null,
        updatedAt: "2026-11-18T10:00:00Z",
      },
    }));
    return { result: { sessions, nextCursor: at + 1 < found.length ? String(at + 1) : null } };
  },
  "session/set_mode": ({ modeId }) => set("mode", modeId),
  "session/set_model": ({ modelId }) => set("model", modelId),
  "session/set_config_option": ({ configId, value }) => set(configId, value),
  "session/prompt": ({ prompt }) => {
    const { text } = prompt.at(-1);
    session.turns.push(text);
    save();
    if (text === "commands") commands("fix");
    if (text.startsWith("mode ")) {
      session.mode = text.slice(5);
      if (variant === "old") update("current_mode_update", { currentModeId: session.mode });
      else update("config_option_update", { configOptions: configOptions() });
    }
    update("usage_update", { used: 1200, size: 200000, cost: { amount: 0.25, currency: "USD" } });
    const { mode, model, effort, web, turns, additionalDirectories } = session;
    say(JSON.stringify({ mode, model, effort, web, turns: turns.length, additionalDirectories }));
    return { result: { stopReason: "end_turn" } };
  },
};

function set(field, value) {
  if (variant === "deaf") return { error: { code: -32603, message: "not now" } };
  session[field] = value;
  save();
  return { result: variant === "old" ? {} : { configOptions: configOptions() } };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) continue;
  const answer = requests[method]?.(params) ?? { error: { code: -32601, message: "Method not found" } };
  tell({ id, ...answer });
}
process.exit(0);
