import { defaults } from "../../defaults.js";
import { firstChars, TextTail } from "../../text/truncate.js";
import { isObject } from "../wire/message.js";
import type { SessionUpdate } from "../wire/session-update.js";

export interface ToolCallSummary {
  readonly id: string;
  readonly title: string;
  readonly kind: string;
  readonly status: string;
}

export interface PlanEntrySummary {
  readonly content: string;
  readonly status: string;
}

export interface UsageSummary {
  readonly used: number;
  readonly size: number;
}

type RawUpdate = SessionUpdate["update"];

/** What one turn has said and done so far: bounded, whatever the agent sends. Text is as it came; who shows it sanitizes it. */
export class TurnSummary {
  readonly text = new TextTail(defaults.acpTextChars);
  /** Folded: their end, and how much there was. */
  readonly thoughts = new TextTail(defaults.acpThoughtChars);
  readonly #tools = new Map<string, ToolCallSummary>();
  plan: readonly PlanEntrySummary[] = [];
  usage: UsageSummary | null = null;
  /** The newest updates of kinds that are not known here, as they came. */
  raw: readonly RawUpdate[] = [];
  /** Oldest tool calls, and oldest or too large raw updates, that were let go of. */
  droppedTools = 0;
  droppedRaw = 0;

  get tools(): readonly ToolCallSummary[] {
    return [...this.#tools.values()];
  }

  apply({ update, bytes }: Pick<SessionUpdate, "update" | "bytes">): void {
    switch (update.sessionUpdate) {
      case "agent_message_chunk":
        return this.text.append(contentText(update["content"]));
      case "agent_thought_chunk":
        return this.thoughts.append(contentText(update["content"]));
      case "tool_call":
      case "tool_call_update":
        return this.#applyToolCall(update);
      case "plan":
        this.plan = parsePlan(update["entries"]);
        return;
      case "usage_update":
        this.usage = { used: finiteOrZero(update["used"]), size: finiteOrZero(update["size"]) };
        return;
      // Echoes of the prompt and news of the session: no output of the turn.
      case "user_message_chunk":
      case "available_commands_update":
      case "current_mode_update":
      case "config_option_update":
      case "session_info_update":
        return;
      default:
        return this.#keepRaw(update, bytes);
    }
  }

  #keepRaw(update: RawUpdate, bytes: number): void {
    const all = bytes > defaults.acpRawUpdateBytes ? this.raw : [...this.raw, update];
    this.droppedRaw += this.raw.length + 1 - Math.min(all.length, defaults.acpRawUpdates);
    this.raw = all.slice(-defaults.acpRawUpdates);
  }

  #applyToolCall(update: RawUpdate): void {
    const tool = applyToolUpdate(update, (id) => this.#tools.get(id));
    if (tool === null) return;
    this.#tools.set(tool.id, tool);
    if (this.#tools.size <= defaults.acpToolCalls) return;
    this.droppedTools++;
    for (const oldest of this.#tools.keys()) {
      this.#tools.delete(oldest);
      break;
    }
  }
}

/**
 * A tool call with what an update says of it; null: it says none. An update may come without its beginning (after a
 * load), and says only what has changed.
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

/** Null: it is none. Bounded: it is kept. */
export function boundedString(value: unknown): string | null {
  return typeof value === "string" ? firstChars(value, defaults.titleChars) : null;
}

function finiteOrZero(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}
