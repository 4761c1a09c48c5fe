import { isatty } from "node:tty";
import { applyToolUpdate, contentText, type ToolCallSummary } from "../../../acp/turn/turn-summary.js";
import { parseUsage } from "../../../acp/agent/agent-reported-state.js";
import { defaults } from "../../../defaults.js";
import type { AgentReport } from "../../../model/acp/agent-reported-state.js";
import { sanitizeText } from "../../../text/sanitize.js";
import { truncateToWidth } from "../../../text/display-width.js";
import { notice } from "../../print/errors-and-notices.js";
import { usageText } from "../set-and-show-settings.js";
import { isCapableTerminal, type Palette, paletteFor } from "../../print/colours-and-progress.js";
import {
  LiveLines,
  lineWidth,
  SanitizedTextStream,
  StdoutWriter,
  terminalDimensions,
} from "./terminal-writer.js";
import {
  type AcpView,
  auditNotice,
  CONTEXT_LOST_NOTICE,
  elicitationNotice,
  type ShownElicitation,
  type Notice,
  noticeLine,
  permissionLine,
  type PermissionRequest,
  type SettingsChange,
  settingsNotice,
  type ShownTurn,
  stallNotice,
  toolHasEnded,
  toolLine,
  toOneLine,
  type TurnChange,
  turnEndNotice,
  type WatchedUpdate,
} from "./notice-texts.js";
import { diffLines, planLine } from "./diff-and-plan-lines.js";

type Kind = "text" | "thought" | "lines";
type RawUpdate = Parameters<typeof applyToolUpdate>[0];

const PROMPT_EXCERPT_CHARS = 60;

export interface TextViewOptions {
  /** Show thoughts in full. */
  readonly thoughts: boolean;
  /** A session is watched, not only one's own turn: prompts are shown as well. */
  readonly watching: boolean;
}

/** Shows what an agent says and does while it happens. */
export class TextView implements AcpView {
  readonly #thoughts: boolean;
  readonly #watching: boolean;
  readonly #palette: Palette = paletteFor(1);
  readonly #out = new StdoutWriter();
  /** Null: lines cannot be rewritten. */
  readonly #liveLines: LiveLines | null;
  readonly #tools = new Map<string, ToolCallSummary>();
  #stream = new SanitizedTextStream();
  #kind: Kind | null = null;
  /** Part of the current text was written. */
  #textStarted = false;
  /** Empty lines that are written only if text follows. */
  #blank = "";
  #thought = "";
  #thoughtCount = 0;
  #plan = "";
  /** Changes of files that were shown, with their tool calls. */
  readonly #diffs = new Set<string>();
  #notices = 0;
  #usage: AgentReport["usage"] = null;
  /** Queued prompts by turn id. */
  readonly #queued = new Map<string, string>();
  #prompted = false;

  constructor({ thoughts, watching }: TextViewOptions) {
    this.#thoughts = thoughts;
    this.#watching = watching;
    this.#liveLines = isCapableTerminal(1) ? new LiveLines(terminalDimensions) : null;
  }

  show({ type, data }: WatchedUpdate): void {
    switch (type) {
      case "update":
        return this.#showUpdate(data as RawUpdate);
      case "permission":
        return this.#showPermission(data as PermissionRequest);
      case "turn":
        return this.#showTurn(data as TurnChange);
      case "audit":
        return this.notice(auditNotice(data as NonNullable<ShownTurn["audit"]>));
      case "context-lost":
        return this.notice(CONTEXT_LOST_NOTICE);
      case "settings":
        return this.notice(settingsNotice(data as SettingsChange, this.#watching));
      case "elicitation":
        return this.notice(elicitationNotice(data as ShownElicitation));
      case "session":
        return this.#watching ? this.notice(["the session is closed", "dim"]) : undefined;
      case "late-answer":
      case "replay":
      case "client":
        // These updates do not belong to the turn; the json format has them.
        return;
    }
  }

  turnEnded(): void {
    // The text was shown already.
  }

  /** Prints a notice beside the agent's text. */
  notice(remark: Notice | null): void {
    if (remark === null) return;
    // If stdout is no terminal, notices go to stderr and the agent's text stays whole.
    if (isatty(1)) this.flush();
    notice(...remark);
  }

  /** No line is rewritten from now on; the next output begins a line. */
  flush(): void {
    this.#endText();
    this.#out.startLine();
    this.#liveLines?.freeze();
    this.#kind = null;
  }

  #showTurn(change: TurnChange): void {
    const { turnId, state, prompt, outcome = null, stopReason = null, problem = null } = change;
    if (change.stalledAt !== undefined) return this.notice(stallNotice(change, Date.now()));
    if (state === "queued") return void this.#queued.set(turnId, prompt ?? "");
    const queuedPrompt = this.#watching ? this.#queued.get(turnId) : undefined;
    this.#queued.delete(turnId);
    if (state === "running") return queuedPrompt === undefined ? undefined : this.#showPrompt(queuedPrompt);
    const remark = turnEndNotice({ outcome, stopReason, problem });
    // The turn never began: the current output belongs to another turn.
    if (queuedPrompt !== undefined && remark !== null)
      return this.notice([
        `${remark[0]}; its prompt was: ${truncateToWidth(toOneLine(queuedPrompt), PROMPT_EXCERPT_CHARS)}`,
        remark[1],
      ]);
    this.flush();
    // The next turn may use the same tool ids.
    this.#tools.clear();
    this.#diffs.clear();
    this.#plan = "";
    if (this.#usage !== null) this.notice([`context: ${usageText(this.#usage)}`, "dim"]);
    this.#usage = null;
    this.notice(remark);
  }

  /** Prints the prompt before its answer. */
  #showPrompt(text: string): void {
    this.flush();
    if (this.#prompted) this.#out.writeLine("");
    this.#prompted = true;
    this.#switchTo("lines");
    for (const line of sanitizeText(text).trimEnd().split("\n"))
      this.#out.writeLine(this.#palette.bold(`> ${line}`));
  }

  #showPermission(permission: PermissionRequest): void {
    const line = permissionLine(permission, Date.now());
    if (line === null) return;
    this.#switchTo("lines");
    this.#liveLines?.freeze();
    this.#out.writeLine(permission.decision === null ? this.#palette.yellow(line) : this.#palette.dim(line));
  }

  #showUpdate(update: RawUpdate): void {
    switch (update.sessionUpdate) {
      case "agent_message_chunk":
        return this.#showText("text", contentText(update["content"]));
      case "agent_thought_chunk":
        return this.#showThought(contentText(update["content"]));
      case "tool_call":
      case "tool_call_update":
        this.#showTool(update);
        return this.#showDiffs(update);
      case "plan":
        return this.#showPlan(update["entries"]);
      case "usage_update":
        this.#usage = parseUsage(update);
        return;
      default: {
        // Other updates of the session and unknown updates are only in the json format.
        const line = noticeLine(update, lineWidth(), this.#palette);
        if (line !== null) this.#showLine(`notice ${++this.#notices}`, line);
      }
    }
  }

  /** The files that a tool call changes, once. */
  #showDiffs(update: RawUpdate): void {
    const lines = diffLines(update["content"], lineWidth(), this.#palette);
    const key = `${String(update["toolCallId"])} ${lines.join("\n")}`;
    if (lines.length === 0 || this.#diffs.has(key)) return;
    this.#diffs.add(key);
    for (const [at, line] of lines.entries()) this.#showLine(`diff ${this.#diffs.size} ${at}`, line);
  }

  #showText(kind: "text" | "thought", piece: string): void {
    if (piece === "") return;
    this.#switchTo(kind);
    // A line of its own separates it from the text before.
    const next = this.#stream.push(piece);
    const whole = this.#textStarted ? this.#blank + next : next.trimStart();
    const words = whole.replace(/\n+$/, "");
    // The next output is separated anyway.
    const ends = words !== whole && (words !== "" || !this.#out.atLineStart);
    const shown = ends ? `${words}\n` : words;
    this.#blank = whole.slice(shown.length);
    this.#textStarted ||= shown !== "";
    this.#out.write(kind === "thought" ? this.#dim(shown) : shown);
  }

  #showThought(piece: string): void {
    if (this.#thoughts) return this.#showText("thought", piece);
    if (piece === "") return;
    if (this.#kind !== "thought") {
      this.#switchTo("thought");
      this.#thoughtCount++;
      this.#thought = "";
    }
    const before = this.#thoughtLine();
    this.#thought = (this.#thought + piece).slice(0, defaults.titleChars);
    const now = this.#thoughtLine();
    if (now !== before) this.#liveLines?.set(`thought ${this.#thoughtCount}`, this.#palette.dim(now));
  }

  #thoughtLine(): string {
    const words = toOneLine(this.#thought);
    return words === "" ? "" : truncateToWidth(`~ ${words}`, lineWidth());
  }

  #showTool(update: RawUpdate): void {
    const tool = applyToolUpdate(update, (id) => this.#tools.get(id));
    if (tool === null) return;
    const { id } = tool;
    const known = this.#tools.get(id);
    this.#tools.set(id, tool);
    const line = toolLine(tool, lineWidth(), this.#palette);
    if (known !== undefined && line === toolLine(known, lineWidth(), this.#palette)) return;
    if (this.#liveLines?.has(id) === true) return this.#liveLines.set(id, line);
    // In place, a line may change often; below, only its end is worth another line.
    if (known !== undefined && !toolHasEnded(tool)) return;
    this.#showLine(id, line);
  }

  #showPlan(entries: unknown): void {
    const line = planLine(entries, lineWidth());
    if (line === null || line === this.#plan) return;
    this.#plan = line;
    this.#showLine("plan", this.#palette.cyan(line));
  }

  #showLine(id: string, line: string): void {
    this.#switchTo("lines");
    if (this.#liveLines === null) this.#out.writeLine(line);
    else this.#liveLines.set(id, line);
  }

  /** Separates text from other output. */
  #switchTo(kind: Kind): void {
    if (this.#kind === kind) return;
    const before = this.#kind;
    this.#endText();
    this.#out.startLine();
    if (before === "text" || (before !== null && kind === "text")) {
      this.#liveLines?.freeze();
      this.#out.writeLine("");
    }
    this.#kind = kind;
    this.#textStarted = false;
    this.#blank = "";
  }

  #endText(): void {
    if (this.#kind === "text" || (this.#kind === "thought" && this.#thoughts)) {
      const rest = this.#stream.flush();
      if (rest !== "") this.#out.write(this.#blank + rest);
      this.#blank = "";
      this.#stream = new SanitizedTextStream();
    } else if (this.#kind === "thought" && this.#liveLines === null) {
      const folded = this.#thoughtLine();
      if (folded !== "") this.#out.writeLine(folded);
    }
  }

  /** A line end inside would carry the colour to the next line. */
  #dim(text: string): string {
    return text
      .split("\n")
      .map((part) => (part === "" ? "" : this.#palette.dim(part)))
      .join("\n");
  }
}
