import { isatty } from "node:tty";
import {
  applyToolUpdate,
  contentText,
  parsePlan,
  type ToolCallSummary,
} from "../../../acp/turn/turn-summary.js";
import { defaults } from "../../../defaults.js";
import { sanitizeText } from "../../../text/sanitize.js";
import { isCapableTerminal, type Palette, paletteFor } from "../../print/palette.js";
import { notice } from "../../print/stderr.js";
import { truncateToWidth } from "../../print/table.js";
import { permissionLine, type PermissionRequest, toolHasEnded, toolLine, toOneLine } from "./formats.js";
import { LiveLines, SanitizedTextStream, StdoutWriter, type TerminalDimensions } from "./terminal-writer.js";
import {
  auditNotice,
  CONTEXT_LOST_NOTICE,
  type Notice,
  type ShownTurn,
  turnEndNotice,
} from "./turn-result.js";
import type { WatchedUpdate } from "./updates.js";
import type { AcpView, TurnChange } from "./updates.js";

type Kind = "text" | "thought" | "lines";
type RawUpdate = Parameters<typeof applyToolUpdate>[0];

/** Where there is no terminal to be as wide as. */
const NON_TERMINAL_WIDTH = 200;

/** As much of a prompt that came to nothing as it takes to know it again. */
const PROMPT_EXCERPT_CHARS = 60;

export interface TextViewOptions {
  /** All of them, instead of their beginning. */
  readonly thoughts: boolean;
  /** A session, not one's own turn: what is asked is shown, too. */
  readonly watching: boolean;
}

/** What an agent says and does, for a person to read as it comes. */
export class TextView implements AcpView {
  readonly #thoughts: boolean;
  readonly #watching: boolean;
  readonly #palette: Palette = paletteFor(1);
  readonly #out = new StdoutWriter();
  /** Null: what is written cannot be written again. */
  readonly #liveLines: LiveLines | null;
  readonly #tools = new Map<string, ToolCallSummary>();
  #stream = new SanitizedTextStream();
  #kind: Kind | null = null;
  /** Of the text that is being written, something has been. */
  #textStarted = false;
  /** Empty lines that are written when more follows. */
  #blank = "";
  #thought = "";
  #thoughtCount = 0;
  #plan = "";
  /** What waits for its turn, by that. */
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
      case "session":
        return this.#watching ? this.notice(["the session is closed", "dim"]) : undefined;
      case "late-answer":
      case "replay":
      case "client":
        // None is of the turn that is shown; all are in the raw frames.
        return;
    }
  }

  turnEnded(): void {
    // All of it has been shown.
  }

  /** Beside what the agent says. */
  notice(remark: Notice | null): void {
    if (remark === null) return;
    // Elsewhere the two are apart, and what the agent says stays whole.
    if (isatty(1)) this.flush();
    notice(...remark);
  }

  /** Nothing that stands there changes any more; what comes next begins a line. */
  flush(): void {
    this.#endText();
    this.#out.startLine();
    this.#liveLines?.freeze();
    this.#kind = null;
  }

  #showTurn({ turnId, state, prompt, outcome = null, stopReason = null, problem = null }: TurnChange): void {
    if (state === "queued") return void this.#queued.set(turnId, prompt ?? "");
    const asked = this.#watching ? this.#queued.get(turnId) : undefined;
    this.#queued.delete(turnId);
    if (state === "running") return asked === undefined ? undefined : this.#showPrompt(asked);
    const remark = turnEndNotice({ outcome, stopReason, problem });
    // It never began: what is shown meanwhile is another's.
    if (asked !== undefined && remark !== null)
      return this.notice([
        `${remark[0]}; it was to be: ${truncateToWidth(toOneLine(asked), PROMPT_EXCERPT_CHARS)}`,
        remark[1],
      ]);
    this.flush();
    // The next turn's tools may be called like this one's.
    this.#tools.clear();
    this.#plan = "";
    this.notice(remark);
  }

  /** What somebody has asked the agent, where its answer begins. */
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
        return this.#showTool(update);
      case "plan":
        return this.#showPlan(update["entries"]);
      default:
        // News of the session, and what is not known: in the raw frames.
        return;
    }
  }

  #showText(kind: "text" | "thought", piece: string): void {
    if (piece === "") return;
    this.#switchTo(kind);
    // What set it apart from the text before a tool's line is done by a line of its own here.
    const next = this.#stream.push(piece);
    const whole = this.#textStarted ? this.#blank + next : next.trimStart();
    const words = whole.replace(/\n+$/, "");
    // What comes next stands apart anyway.
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
    // In its place it may change as often as it likes; below, only its end is worth another line.
    if (known !== undefined && !toolHasEnded(tool)) return;
    this.#showLine(id, line);
  }

  #showPlan(entries: unknown): void {
    const steps = parsePlan(entries);
    const done = steps.filter(({ status }) => status === "completed").length;
    const current = steps.find(({ status }) => status === "in_progress");
    const now = current === undefined ? "" : `, now: ${toOneLine(current.content)}`;
    const line = truncateToWidth(`plan: ${done} of ${steps.length} done${now}`, lineWidth());
    if (steps.length === 0 || line === this.#plan) return;
    this.#plan = line;
    this.#showLine("plan", this.#palette.cyan(line));
  }

  #showLine(id: string, line: string): void {
    this.#switchTo("lines");
    if (this.#liveLines === null) this.#out.writeLine(line);
    else this.#liveLines.set(id, line);
  }

  /** Text stands apart from everything else. */
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

  /** A line end inside would take the colour along to the next line. */
  #dim(text: string): string {
    return text
      .split("\n")
      .map((part) => (part === "" ? "" : this.#palette.dim(part)))
      .join("\n");
  }
}

function terminalDimensions(): TerminalDimensions {
  const { columns, rows } = process.stdout;
  // Some terminals do not know how large they are.
  return { columns: columns > 0 ? columns : 80, rows: rows > 0 ? rows : 24 };
}

/** One less than there is: a terminal may wrap when its last column is filled. */
function lineWidth(): number {
  return isatty(1) ? terminalDimensions().columns - 1 : NON_TERMINAL_WIDTH;
}
