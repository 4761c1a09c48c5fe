import { z } from "zod";
import { defaults } from "../../defaults.js";
import { findTaskOf } from "../tasks/find-task.js";
import { resolveDirectory } from "./exec.js";
import { ArgumentsRefused, defineTool, requireArguments, type ToolAnswer, type ToolCall } from "../tool.js";

const input = z.strictObject({
  action: z.enum(["list", "spawn", "prompt", "cancel", "close"]),
  agent: z.string().min(1).max(200).nullish().describe("spawn: an agent of the catalogue (list shows it)"),
  session: z
    .string()
    .min(1)
    .max(200)
    .nullish()
    .describe("prompt, cancel, close: the session that spawn answered with"),
  key: z
    .string()
    .min(1)
    .max(200)
    .nullish()
    .describe("spawn: a name for the session; an open one with it is used again"),
  cwd: z.string().min(1).max(4_096).nullish().describe("spawn: path of the agent's directory"),
  prompt: z
    .string()
    .min(1)
    .max(defaults.acpPromptChars)
    .nullish()
    .describe("spawn, prompt: what the agent is to do"),
});

const output = z.object({
  agents: z
    .array(z.object({ agent: z.string(), name: z.string(), available: z.boolean() }))
    .optional()
    .describe("available: its program was found"),
  sessions: z
    .array(
      z.object({ sessionId: z.string(), key: z.string(), agent: z.string().nullable(), state: z.string() }),
    )
    .optional()
    .describe("list: open sessions with an agent"),
  sessionId: z.string().optional(),
  turnId: z.string().nullable().optional(),
  taskId: z
    .string()
    .nullable()
    .optional()
    .describe("the task of the turn; tasks wait answers with its result"),
  closed: z.boolean().optional(),
});

type Given = z.output<typeof input>;
type Answer = ToolAnswer & { readonly data: z.input<typeof output> };

export const agentsTool = defineTool({
  name: "agents",
  title: "Other agents",
  description:
    "Starts another agent and works with it. list: the agents there are, and their open sessions. spawn: start one in a " +
    "session of its own, optionally with a first prompt. prompt: send it a prompt; the answer has a taskId at once, and " +
    "tasks wait answers with the agent's result. cancel: end its turn. close: end the agent with everything it started.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  input,
  output,
  run: (given, call) => actions[given.action](given, call),
});

const actions: Readonly<Record<Given["action"], (given: Given, call: ToolCall) => Promise<Answer>>> = {
  list: async (_, { client, signal }) => {
    const [{ agents }, { sessions }] = await Promise.all([
      client.listAgents({}, signal),
      client.acpList({ query: {} }, signal),
    ]);
    const known = agents
      .filter(({ acp }) => acp !== null)
      .map(({ id, name, acp }) => ({ agent: id, name, available: acp?.executable !== null }));
    const open = sessions.map(({ sessionId, key, agentId, state }) => ({
      sessionId,
      key,
      agent: agentId,
      state,
    }));
    const lines = [
      ...known.filter(({ available }) => available).map(({ agent, name }) => `${agent}  ${name}`),
      ...open.map(({ sessionId, agent, state, key }) => `${sessionId}  ${agent ?? "-"}  ${state}  ${key}`),
    ];
    return {
      text: lines.length === 0 ? "no agent is installed" : lines.join("\n"),
      data: { agents: known, sessions: open },
    };
  },

  spawn: async (given, call) => {
    requireArguments("agents", "spawn", given, "agent");
    const cwd = resolveDirectory(given.cwd ?? null, call.cwd);
    if (cwd === null)
      throw new ArgumentsRefused("agents: spawn needs cwd, the directory of the agent. Nothing was done.");
    const { agent, key, prompt } = given;
    const body = {
      ...{ agent, cwd, wait: false },
      ...(call.environment === null ? {} : { environment: { ...call.environment } }),
      ...(typeof key === "string" ? { key } : {}),
      ...(typeof prompt === "string" ? { prompt, background: true } : {}),
    };
    const { session, created, turn } = await call.client.acpSpawn({ body }, call.signal);
    const taskId = turn === null ? null : await findTaskOf(call, turn.turnId);
    const { sessionId, state } = session;
    return {
      text: `${sessionId} ${created ? `is open with ${agent}` : "was open already"} (${state})${turnText(taskId)}`,
      data: { sessionId, turnId: turn?.turnId ?? null, taskId },
      taskId,
    };
  },

  prompt: async (given, call) => {
    requireArguments("agents", "prompt", given, "session", "prompt");
    const { session, prompt } = given;
    const body = { text: prompt, wait: false, background: true };
    const { turn } = await call.client.acpPrompt({ params: { id: session }, body }, call.signal);
    const taskId = await findTaskOf(call, turn.turnId);
    return {
      text: `${turn.turnId} is ${turn.state}${turnText(taskId)}`,
      data: { sessionId: turn.sessionId, turnId: turn.turnId, taskId },
      taskId,
    };
  },

  cancel: async (given, { client, signal }) => {
    requireArguments("agents", "cancel", given, "session");
    const { turn } = await client.acpCancel({ params: { id: given.session }, body: {} }, signal);
    return {
      text:
        turn === null
          ? "no turn was running; nothing was done"
          : `${turn.turnId}: ${turn.outcome ?? turn.state}`,
      data: { turnId: turn?.turnId ?? null },
    };
  },

  close: async (given, { client, signal }) => {
    requireArguments("agents", "close", given, "session");
    const { session, survivors } = await client.acpClose({ params: { id: given.session }, body: {} }, signal);
    const closed = session.state === "closed";
    return {
      text: closed
        ? `${session.sessionId} is closed, and its processes are gone`
        : `${session.sessionId} is closing; ${survivors.length} processes are left`,
      data: { sessionId: session.sessionId, closed },
      failed: !closed,
    };
  },
};

function turnText(taskId: string | null): string {
  return taskId === null ? "" : `; tasks wait, taskId ${taskId}, answers with the result`;
}
