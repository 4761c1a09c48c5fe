import { defaults } from "../../defaults.js";
import { firstChars, TextTail } from "../../text/truncate.js";
import { isObject, type SessionUpdate } from "../wire/message.js";
import { digestInput } from "./tool-input-digest.js";

export interface ToolCallSummary {
  readonly id: string;
  readonly title: string;
  readonly kind: string;
  readonly status: string;
}

/** A tool call with the digest of what it executes; null: no update has named it. */
export interface KnownToolCall extends ToolCallSummary {
  readonly inputDigest: string | null;
}

interface PlanEntrySummary {
  readonly content: string;
  readonly status: string;
}

/** The current activity of an agent: a tool or plan step, or the newest part of its text. */
export interface TurnActivity {
  readonly kind: "step" | "text";
  readonly text: string;
}

type RawUpdate = SessionUpdate["update"];

/** Several times the length of a progress summary, so that a secret that the bound cuts is outside of the summary. */
const NEWEST_TEXT_CHARS = 8 * defaults.taskProgressChars;

/** The text, tool calls and plan of one turn so far, bounded whatever the agent sends. Not sanitized. */
export class TurnSummary {
  readonly text = new TextTail(defaults.acpKeptTextChars);
  readonly #tools = new Map<string, ToolCallSummary>();
  /** By the id of the tool call. */
  readonly #inputDigests = new Map<string, string>();
  /** The text since the last tool call. */
  #newestText = new TextTail(NEWEST_TEXT_CHARS);
  plan: readonly PlanEntrySummary[] = [];

  get tools(): readonly ToolCallSummary[] {
    return [...this.#tools.values()];
  }

  /** Null: it is not known. */
  tool(id: string): KnownToolCall | null {
    const tool = this.#tools.get(id);
    return tool === undefined ? null : { ...tool, inputDigest: this.#inputDigests.get(id) ?? null };
  }

  /** The tool that runs, the plan step in progress, the text since the last tool, or the last tool; null: none. */
  get activity(): TurnActivity | null {
    const tool = this.tools.findLast(({ status }) => status === "pending" || status === "in_progress");
    const step = tool?.title ?? this.plan.find(({ status }) => status === "in_progress")?.content;
    if (step !== undefined) return { kind: "step", text: step };
    const { text } = this.#newestText;
    if (text.trim() !== "") return { kind: "text", text };
    const last = this.tools.at(-1)?.title;
    return last === undefined ? null : { kind: "step", text: last };
  }

  apply({ update }: Pick<SessionUpdate, "update">): void {
    switch (update.sessionUpdate) {
      case "agent_message_chunk":
        return this.#appendText(contentText(update["content"]));
      case "tool_call":
      case "tool_call_update":
        return this.#applyToolCall(update);
      case "plan":
        this.plan = parsePlan(update["entries"]);
    }
  }

  #appendText(text: string): void {
    this.text.append(text);
    this.#newestText.append(text);
  }

  #applyToolCall(update: RawUpdate): void {
    const tool = applyToolUpdate(update, (id) => this.#tools.get(id));
    if (tool === null) return;
    this.#newestText = new TextTail(NEWEST_TEXT_CHARS);
    this.#tools.set(tool.id, tool);
    const digest = digestInput(update["rawInput"]);
    if (digest !== null) this.#inputDigests.set(tool.id, digest);
    if (this.#tools.size <= defaults.acpToolCalls) return;
    for (const oldest of this.#tools.keys()) {
      this.#tools.delete(oldest);
      this.#inputDigests.delete(oldest);
      break;
    }
  }
}

/**
 * The tool call after an update; null: the update names none. An update holds only what has changed, and after a load
 * its beginning may be missing.
 */
export function applyToolUpdate(
  update: RawUpdate,
  known: (id: string) => ToolCallSummary | undefined,
): ToolCallSummary | null {
  const id = update["toolCallId"];
  if (typeof id !== "string" || id.length > defaults.titleChars) return null;
  const before = known(id);
  return {
    id,
    title: boundedString(update["title"]) ?? before?.title ?? id,
    kind: boundedString(update["kind"]) ?? before?.kind ?? "other",
    status: boundedString(update["status"]) ?? before?.status ?? "pending",
  };
}

export function contentText(content: unknown): string {
  if (!isObject(content)) return "";
  if (typeof content["text"] === "string") return content["text"];
  return typeof content["type"] === "string" ? `[${content["type"]}]` : "";
}

export function parsePlan(entries: unknown): PlanEntrySummary[] {
  if (!Array.isArray(entries)) return [];
  return entries
    .slice(0, defaults.acpPlanEntries)
    .filter(isObject)
    .map((entry) => ({
      content: boundedString(entry["content"]) ?? "",
      status: boundedString(entry["status"]) ?? "pending",
    }));
}

/** Null: not a string. Bounded, because it is stored. */
export function boundedString(value: unknown): string | null {
  return typeof value === "string" ? firstChars(value, defaults.titleChars) : null;
}
