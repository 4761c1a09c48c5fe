import { z } from "zod";
import { defaults } from "../../defaults.js";
import { MESSAGE_DELIVERIES } from "../../model/enums.js";
import { isoTime } from "../run-view.js";
import { defineTool, requireArguments, type ToolAnswer, type ToolCall } from "../tool.js";

const input = z.strictObject({
  action: z.enum(["list", "history", "send"]),
  session: z
    .string()
    .min(1)
    .max(200)
    .nullish()
    .describe("history, send: its id or key, or the beginning of one"),
  text: z.string().min(1).max(defaults.messageChars).nullish().describe("send: the message"),
  deliver: z
    .enum(MESSAGE_DELIVERIES)
    .nullish()
    .describe("send: wake starts a turn of an idle agent (default); next-turn waits for its next turn"),
  before: z
    .int()
    .min(1)
    .nullish()
    .describe("history: entries before this place; nextBefore of the page before"),
  all: z.boolean().nullish().describe("list: also closed sessions"),
});

const sessionView = z.object({
  sessionId: z.string(),
  key: z.string(),
  agent: z.string().nullable(),
  open: z.boolean(),
  createdAt: z.string().nullable(),
});

const entryView = z.object({
  place: z.int(),
  kind: z.enum(["message", "turn"]),
  from: z.string(),
  text: z.string(),
  answer: z.string().nullable().describe("of a turn that has ended"),
  state: z.string(),
  at: z.string().nullable(),
});

const output = z.object({
  sessions: z.array(sessionView).optional(),
  entries: z.array(entryView).optional().describe("oldest first"),
  nextBefore: z.int().nullable().optional().describe("null: there is nothing older"),
  messageId: z.string().optional(),
});

type Given = z.output<typeof input>;
type Answer = ToolAnswer & { readonly data: z.input<typeof output> };

const PAGE = 20;
/** Characters of one entry of a history. */
const ENTRY_CHARS = 4_000;

export const sessionsTool = defineTool({
  name: "sessions",
  title: "Other sessions",
  description:
    "The sessions that this one may see: its own and those of the agents that it started. list; " +
    "history: their messages and turns, newest page first; send: a message to one.",
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  input,
  output,
  run: (given, call) => actions[given.action](given, call),
});

const actions: Readonly<Record<Given["action"], (given: Given, call: ToolCall) => Promise<Answer>>> = {
  list: async ({ all }, { client, signal }) => {
    const query = all === true ? { all: "1" as const } : {};
    const { sessions } = await client.listSessions({ query }, signal);
    const views = sessions.map(({ id, key, agentId, closedAt, createdAt }) => ({
      ...{ sessionId: id, key, agent: agentId, open: closedAt === null },
      createdAt: isoTime(createdAt),
    }));
    const lines = views.map(
      ({ sessionId, key, open }) => `${sessionId}  ${open ? "open" : "closed"}  ${key}`,
    );
    return { text: lines.join("\n"), data: { sessions: views } };
  },

  history: async (given, { client, signal }) => {
    requireArguments("sessions", "history", given, "session");
    const query = { limit: PAGE, ...(typeof given.before === "number" ? { before: given.before } : {}) };
    const { messages, turns } = await client.sessionHistory({ params: { id: given.session }, query }, signal);
    const entries = [
      ...messages.map(({ seq, role, actor, text, deliveredAt, at }) => ({
        ...{ place: seq, kind: "message" as const, from: `${role} ${actor}`, text: cut(text), answer: null },
        state: deliveredAt === null ? "waiting" : "delivered",
        at: isoTime(at),
      })),
      ...turns.map(({ place, askedBy, prompt, text, state, outcome, createdAt }) => ({
        ...{ place, kind: "turn" as const, from: askedBy, text: cut(prompt) },
        answer: text === "" ? null : cut(text),
        state: outcome ?? state,
        at: isoTime(createdAt),
      })),
    ].toSorted((one, other) => one.place - other.place);
    const [oldest] = entries;
    const nextBefore = oldest === undefined || oldest.place <= 1 ? null : oldest.place;
    const lines = entries.map(({ place, kind, from, text, answer, state }) =>
      [
        `${place}. ${kind} of ${from} (${state}): ${text}`,
        ...(answer === null ? [] : [`   answer: ${answer}`]),
      ].join("\n"),
    );
    const more = nextBefore === null ? "" : `\n[older: history with before ${nextBefore}]`;
    return {
      text: (lines.length === 0 ? "there are no messages and turns" : lines.join("\n")) + more,
      data: { entries, nextBefore },
    };
  },

  send: async (given, { client, signal }) => {
    requireArguments("sessions", "send", given, "session", "text");
    const { session, text, deliver } = given;
    const body = { text, ...(typeof deliver === "string" ? { deliver } : {}) };
    const { message } = await client.sendMessage({ params: { id: session }, body }, signal);
    return {
      text: `sent to ${message.sessionId} as ${message.id}; sessions history shows its answer`,
      data: { messageId: message.id },
    };
  },
};

function cut(text: string): string {
  return text.length <= ENTRY_CHARS
    ? text
    : `${text.slice(0, ENTRY_CHARS)} [${text.length - ENTRY_CHARS} characters left out]`;
}
