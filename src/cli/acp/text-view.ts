import { isatty } from "node:tty";
import { planOf, textOf, toolAfter, type ToolCallSummary } from "../../acp/turn.js";
import { defaults } from "../../defaults.js";
import { sanitizeText } from "../../output/sanitize.js";
import { say } from "../complain.js";
import { isSmart, paletteFor, type Palette } from "../palette.js";
import { fit } from "../runs/table.js";
import { auditRemark, contextLostRemark, endRemark, type Remark, type Turn } from "./ending.js";
import { LiveLines, type Size } from "./live-lines.js";
import { Pen } from "./pen.js";
import { permissionLine, type Permission } from "./permission-line.js";
import { TextStream } from "./text-stream.js";
import { hasEnded, oneLine, toolLine } from "./tool-line.js";
import type { Update } from "./updates.js";
import type { TurnNews, View } from "./view.js";

type Kind = "text" | "thought" | "lines";
type Raw = Parameters<typeof toolAfter>[0];

/** Where there is no terminal to be as wide as. */
const WIDTH = 200;

/** As much of a prompt that came to nothing as it takes to know it again. */
const ASKED = 60;

export interface TextViewOptions {
  /** All of them, instead of their beginning. */
  readonly thoughts: boolean;
  /** A session, not one's own turn: what is asked is shown, too. */
  readonly watching: boolean;
}

/** What an agent says and does, for a person to read as it comes. */
export class TextView implements View {
  readonly #thoughts: boolean;
  readonly #watching: boolean;
  readonly #palette: Palette = paletteFor(1);
  readonly #pen = new Pen();
  /** Null: what is written cannot be written again. */
  readonly #live: LiveLines | null;
  readonly #tools = new Map<string, ToolCallSummary>();
  #stream = new TextStream();
  #kind: Kind | null = null;
  /** Of the text that is being written, something has been. */
  #begun = false;
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
    this.#live = isSmart(1) ? new LiveLines(size) : null;
  }

  show({ type, data }: Update): void {
    switch (type) {
      case "update":
        return this.#update(data as Raw);
      case "permission":
        return this.#permission(data as Permission);
      case "turn":
        return this.#turn(data as TurnNews);
      case "audit":
        return this.remark(auditRemark(data as NonNullable<Turn["audit"]>));
      case "context-lost":
        return this.remark(contextLostRemark);
      case "session":
        return this.#watching ? this.remark(["the session is closed", "dim"]) : undefined;
      case "late-answer":
      case "replay":
      case "client":
        // None is of the turn that is shown; all are in the raw frames.
        return;
    }
  }

  ended(): void {
    // All of it has been shown.
  }

  /** Beside what the agent says. */
  remark(remark: Remark | null): void {
    if (remark === null) return;
    // Elsewhere the two are apart, and what the agent says stays whole.
    if (isatty(1)) this.settle();
    say(...remark);
  }

  /** Nothing that stands there changes any more; what comes next begins a line. */
  settle(): void {
    this.#endText();
    this.#pen.fresh();
    this.#live?.settle();
    this.#kind = null;
  }

  #turn({ turnId, state, prompt, outcome = null, stopReason = null, problem = null }: TurnNews): void {
    if (state === "queued") return void this.#queued.set(turnId, prompt ?? "");
    const asked = this.#watching ? this.#queued.get(turnId) : undefined;
    this.#queued.delete(turnId);
    if (state === "running") return asked === undefined ? undefined : this.#prompt(asked);
    const remark = endRemark({ outcome, stopReason, problem });
    // It never began: what is shown meanwhile is another's.
    if (asked !== undefined && remark !== null)
      return this.remark([`${remark[0]}; it was to be: ${fit(oneLine(asked), ASKED)}`, remark[1]]);
    this.settle();
    // The next turn's tools may be called like this one's.
    this.#tools.clear();
    this.#plan = "";
    this.remark(remark);
  }

  /** What somebody has asked the agent, where its answer begins. */
  #prompt(text: string): void {
    this.settle();
    if (this.#prompted) this.#pen.line("");
    this.#prompted = true;
    this.#turnTo("lines");
    for (const line of sanitizeText(text).trimEnd().split("\n"))
      this.#pen.line(this.#palette.bold(`> ${line}`));
  }

  #permission(permission: Permission): void {
    const line = permissionLine(permission, Date.now());
    if (line === null) return;
    this.#turnTo("lines");
    this.#live?.settle();
    this.#pen.line(permission.decision === null ? this.#palette.yellow(line) : this.#palette.dim(line));
  }

  #update(update: Raw): void {
    switch (update.sessionUpdate) {
      case "agent_message_chunk":
        return this.#text("text", textOf(update["content"]));
      case "agent_thought_chunk":
        return this.#think(textOf(update["content"]));
      case "tool_call":
      case "tool_call_update":
        return this.#tool(update);
      case "plan":
        return this.#planned(update["entries"]);
      default:
        // News of the session, and what is not known: in the raw frames.
        return;
    }
  }

  #text(kind: "text" | "thought", piece: string): void {
    if (piece === "") return;
    this.#turnTo(kind);
    // What set it apart from the text before a tool's line is done by a line of its own here.
    const next = this.#stream.push(piece);
    const whole = this.#begun ? this.#blank + next : next.trimStart();
    const words = whole.replace(/\n+$/, "");
    // What comes next stands apart anyway.
    const ends = words !== whole && (words !== "" || !this.#pen.atLineStart);
    const shown = ends ? `${words}\n` : words;
    this.#blank = whole.slice(shown.length);
    this.#begun ||= shown !== "";
    this.#pen.text(kind === "thought" ? this.#dim(shown) : shown);
  }

  #think(piece: string): void {
    if (this.#thoughts) return this.#text("thought", piece);
    if (piece === "") return;
    if (this.#kind !== "thought") {
      this.#turnTo("thought");
      this.#thoughtCount++;
      this.#thought = "";
    }
    const before = this.#folded();
    this.#thought = (this.#thought + piece).slice(0, defaults.titleChars);
    const now = this.#folded();
    if (now !== before) this.#live?.set(`thought ${this.#thoughtCount}`, this.#palette.dim(now));
  }

  #folded(): string {
    const words = oneLine(this.#thought);
    return words === "" ? "" : fit(`~ ${words}`, width());
  }

  #tool(update: Raw): void {
    const tool = toolAfter(update, (id) => this.#tools.get(id));
    if (tool === null) return;
    const { id } = tool;
    const known = this.#tools.get(id);
    this.#tools.set(id, tool);
    const line = toolLine(tool, width(), this.#palette);
    if (known !== undefined && line === toolLine(known, width(), this.#palette)) return;
    if (this.#live?.has(id) === true) return this.#live.set(id, line);
    // In its place it may change as often as it likes; below, only its end is worth another line.
    if (known !== undefined && !hasEnded(tool)) return;
    this.#lasting(id, line);
  }

  #planned(entries: unknown): void {
    const steps = planOf(entries);
    const done = steps.filter(({ status }) => status === "completed").length;
    const current = steps.find(({ status }) => status === "in_progress");
    const now = current === undefined ? "" : `, now: ${oneLine(current.content)}`;
    const line = fit(`plan: ${done} of ${steps.length} done${now}`, width());
    if (steps.length === 0 || line === this.#plan) return;
    this.#plan = line;
    this.#lasting("plan", this.#palette.cyan(line));
  }

  #lasting(id: string, line: string): void {
    this.#turnTo("lines");
    if (this.#live === null) this.#pen.line(line);
    else this.#live.set(id, line);
  }

  /** Text stands apart from everything else. */
  #turnTo(kind: Kind): void {
    if (this.#kind === kind) return;
    const before = this.#kind;
    this.#endText();
    this.#pen.fresh();
    if (before === "text" || (before !== null && kind === "text")) {
      this.#live?.settle();
      this.#pen.line("");
    }
    this.#kind = kind;
    this.#begun = false;
    this.#blank = "";
  }

  #endText(): void {
    if (this.#kind === "text" || (this.#kind === "thought" && this.#thoughts)) {
      const rest = this.#stream.flush();
      if (rest !== "") this.#pen.text(this.#blank + rest);
      this.#blank = "";
      this.#stream = new TextStream();
    } else if (this.#kind === "thought" && this.#live === null) {
      const folded = this.#folded();
      if (folded !== "") this.#pen.line(folded);
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

function size(): Size {
  const { columns, rows } = process.stdout;
  // Some terminals do not know how large they are.
  return { columns: columns > 0 ? columns : 80, rows: rows > 0 ? rows : 24 };
}

/** One less than there is: a terminal may wrap when its last column is filled. */
function width(): number {
  return isatty(1) ? size().columns - 1 : WIDTH;
}
