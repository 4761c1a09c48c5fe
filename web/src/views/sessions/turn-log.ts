import type { ResponseOf } from "../../../../src/api/contract.js";
import { visibleText } from "../../components/visible-text.js";

export type Update = ResponseOf<"acpWatch">["updates"][number];
export type Turn = ResponseOf<"acpHistory">["turns"][number];

/** A change of a file in a tool call. */
export interface FileChange {
  readonly path: string;
  readonly before: string;
  readonly after: string;
}

export interface ToolCall {
  readonly title: string;
  readonly kind: string;
  readonly status: string;
  readonly texts: readonly string[];
  readonly changes: readonly FileChange[];
}

export interface PlanEntry {
  readonly content: string;
  readonly status: string;
}

export type Item =
  | { readonly type: "message" | "thought"; text: string }
  | { readonly type: "tool"; readonly id: string }
  | { readonly type: "notice"; readonly text: string };

/** The actions and texts of the agent in one turn, in the order of its updates. */
export class TurnLog {
  readonly items: Item[] = [];
  readonly tools = new Map<string, ToolCall>();
  plan: readonly PlanEntry[] = [];
  /** The updates of its beginning were read, too. */
  whole = false;

  apply({ type, data }: Update): void {
    if (type === "turn") this.whole ||= isObject(data) && data["state"] === "running";
    if (type === "context-lost")
      this.#note("The agent was restarted and does not know the earlier conversation.");
    if (type === "elicitation" && isObject(data) && data["permissionId"] === undefined)
      this.#note(`The agent asked, and its question cannot be shown as a form: ${textOf(data["message"])}`);
    if (type === "update" && isObject(data)) this.#applyUpdate(data);
  }

  #applyUpdate(update: Readonly<Record<string, unknown>>): void {
    switch (update["sessionUpdate"]) {
      case "agent_message_chunk":
        return this.#append("message", contentText(update["content"]));
      case "agent_thought_chunk":
        return this.#append("thought", contentText(update["content"]));
      case "tool_call":
      case "tool_call_update":
        return this.#applyTool(update);
      case "plan":
        this.plan = planOf(update["entries"]);
        return;
      case "notice":
        return this.#note(
          [textOf(update["title"]), textOf(update["description"])].filter(Boolean).join(": "),
        );
    }
  }

  #append(type: "message" | "thought", text: string): void {
    if (text === "") return;
    const last = this.items.at(-1);
    if (last?.type === type) last.text += text;
    else this.items.push({ type, text });
  }

  #note(text: string): void {
    if (text !== "") this.items.push({ type: "notice", text });
  }

  /** An update holds only what has changed. */
  #applyTool(update: Readonly<Record<string, unknown>>): void {
    const id = textOf(update["toolCallId"]);
    if (id === "") return;
    const before = this.tools.get(id);
    if (before === undefined) this.items.push({ type: "tool", id });
    const { content } = update;
    this.tools.set(id, {
      title: textOf(update["title"]) || (before?.title ?? id),
      kind: textOf(update["kind"]) || (before?.kind ?? "other"),
      status: textOf(update["status"]) || (before?.status ?? "pending"),
      texts: Array.isArray(content) ? textsOf(content) : (before?.texts ?? []),
      changes: Array.isArray(content) ? changesOf(content) : (before?.changes ?? []),
    });
  }
}

function textsOf(content: readonly unknown[]): string[] {
  return content
    .filter(isObject)
    .filter(({ type }) => type === "content")
    .map((each) => contentText(each["content"]))
    .filter((text) => text !== "");
}

function changesOf(content: readonly unknown[]): FileChange[] {
  return content
    .filter(isObject)
    .filter(
      ({ type, path, newText }) => type === "diff" && typeof path === "string" && typeof newText === "string",
    )
    .map(({ path, oldText, newText }) => ({
      path: textOf(path),
      before: textOf(oldText),
      after: textOf(newText),
    }));
}

function planOf(entries: unknown): PlanEntry[] {
  if (!Array.isArray(entries)) return [];
  return entries
    .filter(isObject)
    .map(({ content, status }) => ({ content: textOf(content), status: textOf(status) || "pending" }));
}

function contentText(content: unknown): string {
  if (!isObject(content)) return "";
  if (typeof content["text"] === "string") return visibleText(content["text"]);
  return typeof content["type"] === "string" ? `[${content["type"]}]` : "";
}

function textOf(value: unknown): string {
  return typeof value === "string" ? visibleText(value) : "";
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
