import type { ResponseOf } from "../../../api/contract.js";
import { defaults } from "../../../defaults.js";
import { sanitizeLine } from "../../../text/sanitize.js";
import { displayWidth, truncateToWidth } from "../../../text/display-width.js";
import { formatElapsed } from "../../../text/format-units.js";
import { exitCodes } from "../../print/exit-code.js";
import type { Palette } from "../../print/colours-and-progress.js";

/** Formats of updates: text for reading, the frames as JSON, or only the answer. */
export const OUTPUT_FORMATS = ["text", "json", "quiet"] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

interface ToolState {
  readonly title: string;
  readonly kind: string;
  readonly status: string;
}

/** A Map: the status comes from the agent and may be `constructor`. */
const STATUS_MARKS = new Map<string, readonly [mark: string, colour: "green" | "red" | "yellow" | "dim"]>([
  ["pending", ["·", "dim"]],
  ["in_progress", ["…", "yellow"]],
  ["completed", ["✓", "green"]],
  ["failed", ["✗", "red"]],
]);

export function toolHasEnded({ status }: ToolState): boolean {
  return status === "completed" || status === "failed";
}

const MIN_TITLE_COLUMNS = 8;

/** A tool call on one line, even if its title has several. */
export function toolLine({ title, kind, status }: ToolState, width: number, palette: Palette): string {
  const [mark, colour] = STATUS_MARKS.get(status) ?? ["·", "dim"];
  const words = toOneLine(`${kind === "other" ? "" : `${kind}: `}${title}`);
  const state = toOneLine(status.replaceAll("_", " "));
  const room = width - displayWidth(state) - 4;
  // If there is no room for both, the mark is enough.
  if (room < MIN_TITLE_COLUMNS) return `${palette[colour](mark)} ${truncateToWidth(words, width - 2)}`;
  return `${palette[colour](mark)} ${truncateToWidth(words, room)}  ${palette.dim(state)}`;
}

/** Text of an agent as a single line. */
export function toOneLine(text: string): string {
  return sanitizeLine(text.replaceAll(/\s+/g, " ").trim());
}

export type PermissionRequest = ResponseOf<"acpAnswer">["permission"];

/** The subject of a permission request. */
export function permissionSubject({ kind, title, toolCallId }: PermissionRequest): string {
  const words = title ?? toolCallId;
  return toOneLine(kind === null ? words : `${kind}: ${words}`);
}

export function expiryText({ expiresAt }: PermissionRequest, now: number): string {
  return `expires in ${formatElapsed(now, expiresAt)}`;
}

/** An open request in a list of fields. */
export function openPermissionText(permission: PermissionRequest, now: number): string {
  return `${permission.id} ${permissionSubject(permission)} (${expiryText(permission, now)})`;
}

/** Null: a request that a rule answered is not shown. */
export function permissionLine(permission: PermissionRequest, now: number): string | null {
  const { id, decision } = permission;
  const subject = permissionSubject(permission);
  if (decision === null)
    return `? ${subject} (${expiryText(permission, now)}): holdfast acp permissions show ${id}, then allow or deny`;
  const { verdict, actor } = decision;
  if (verdict === "allow" && actor.startsWith("rule ")) return null;
  return `${VERDICT_WORDS[verdict]}: ${subject} (${toOneLine(actor)})`;
}

const VERDICT_WORDS = {
  allow: "allowed",
  deny: "denied",
  cancelled: "not answered",
  expired: "expired",
} as const;

/** A question of the agent to its user. `permissionId`: it waits as a permission request; absent: it was declined. */
export interface ShownElicitation {
  readonly permissionId?: string;
  readonly message: string;
  readonly url: string | null;
}

/** Null: the update of the permission request is shown. */
export function elicitationNotice({ permissionId, message, url }: ShownElicitation): Notice | null {
  if (permissionId !== undefined) return null;
  const at = url === null ? "" : ` (${toOneLine(url)})`;
  return [
    `the agent asked: ${toOneLine(message)}${at}; the question cannot be shown as a form, so it was declined. Answer with a prompt`,
    "yellow",
  ];
}

/** A notice of the agent, or that it shortens its context; null: the update is neither. */
export function noticeLine(
  update: Readonly<Record<string, unknown>>,
  width: number,
  palette: Palette,
): string | null {
  const { sessionUpdate, severity, title, description, status } = update;
  if (sessionUpdate === "compaction_update" && typeof status === "string")
    return palette.dim(
      truncateToWidth(`context compaction: ${toOneLine(status.replaceAll("_", " "))}`, width),
    );
  if (sessionUpdate !== "notice" || typeof title !== "string") return null;
  const more = typeof description === "string" && description !== "" ? `: ${description}` : "";
  const line = truncateToWidth(`! ${toOneLine(`${title}${more}`)}`, width);
  return severity === "error" ? palette.red(line) : palette.yellow(line);
}

/** Settings that were applied, or (`refused`) why they could not be applied again after a restart of the agent. */
export interface SettingsChange {
  readonly model?: string;
  readonly mode?: string;
  readonly options?: Readonly<Record<string, string>>;
  readonly refused?: readonly string[];
}

/** Null: the user requested the change, so it is shown only by `acp watch`. */
export function settingsNotice(
  { model, mode, options = {}, refused = [] }: SettingsChange,
  watching: boolean,
): Notice | null {
  if (refused.length > 0) return [`after the restart of the agent, ${refused.join("; ")}`, "yellow"];
  const made = [
    ...(model === undefined ? [] : [`model ${model}`]),
    ...(mode === undefined ? [] : [`mode ${mode}`]),
    ...Object.entries(options).map(([id, value]) => `${id}=${value}`),
  ];
  return watching ? [`the agent was set to ${made.join(", ")}`, "dim"] : null;
}

export type ShownTurn = ResponseOf<"acpPrompt">["turn"];

/** A notice about a turn and its colour. */
export type Notice = readonly [message: string, colour: "red" | "yellow" | "dim"];

/** The exit code of a command that has waited for a turn. */
export function turnExitCode(
  turn: Pick<ShownTurn, "outcome" | "stopReason" | "problem" | "contextLost">,
): number {
  switch (turn.outcome) {
    case "completed":
      if (turn.stopReason === "refusal") return exitCodes.refused;
      if (STOPPED_EARLY.test(turn.stopReason ?? "")) return exitCodes.incomplete;
      return turn.contextLost ? exitCodes.contextLost : 0;
    case "failed":
      return turn.problem?.code === "ACP_TIMEOUT" ? exitCodes.timeout : exitCodes.turnFailed;
    case "cancelled":
      return exitCodes.cancelled;
    case "cancel-unconfirmed":
      return exitCodes.cancelUnconfirmed;
    case "interrupted":
      return exitCodes.interrupted;
    case null:
      return exitCodes.failure;
  }
}

const STOPPED_EARLY = /^max_/;

/** Describes silence of the agent for the user. Null: it is active again. */
export function stallNotice({ stalledAt }: TurnChange, now: number): Notice | null {
  if (stalledAt === null || stalledAt === undefined) return null;
  const silent = formatElapsed(stalledAt, now);
  return [
    `the agent has sent nothing for ${silent}; the turn continues, and Ctrl-C or \`acp cancel\` ends it`,
    "yellow",
  ];
}

/** Describes the end of a turn for the user. Null: it ended normally. */
export function turnEndNotice({
  outcome,
  stopReason,
  problem,
}: Pick<ShownTurn, "outcome" | "stopReason" | "problem">): Notice | null {
  const why = problem === null ? "" : `: ${problem.message}`;
  switch (outcome) {
    case "completed":
      if (stopReason === "refusal") return ["the agent refused to continue", "yellow"];
      return STOPPED_EARLY.test(stopReason ?? "")
        ? [`the agent stopped early: ${stopReason}`, "yellow"]
        : null;
    case "cancelled":
      return [`the turn is cancelled${why}`, "dim"];
    case "cancel-unconfirmed":
      return ["the agent did not confirm the cancellation; the next prompt restarts the agent", "yellow"];
    case "interrupted":
      return [`the turn was interrupted, and the prompt will not be sent again${why}`, "red"];
    case "failed":
    case null:
      return [`the turn failed${why}`, "red"];
  }
}

/** Says that the text of a turn is not whole. Null: it is. */
export function omittedTextNotice({
  sessionId,
  turnId,
  text,
  omittedChars,
}: Pick<ShownTurn, "sessionId" | "turnId" | "text" | "omittedChars">): Notice | null {
  if (omittedChars === 0) return null;
  const shown = `the first ${omittedChars} characters of the answer are left out`;
  // A longer text is the whole record of the turn.
  return text.length > defaults.acpTextChars
    ? [`${shown}: only its newest ${defaults.acpKeptTextChars} characters are kept`, "yellow"]
    : [`${shown}; all of it: holdfast acp history ${sessionId} --turn ${turnId}`, "yellow"];
}

export function auditNotice(audit: NonNullable<ShownTurn["audit"]>): Notice | null {
  const { left, reaped, survivors, unknown } = audit;
  const many = (of: typeof left): string => `${of.length} ${of.length === 1 ? "process" : "processes"}`;
  if (unknown !== null) {
    const known = left.length === 0 ? "" : `, except ${many(left)}: ${processNames(left)}`;
    return [`it is not known which processes the turn left running (${unknown})${known}`, "yellow"];
  }
  if (left.length === 0) return null;
  if (!reaped)
    return [
      `the turn left ${many(left)} running until the session is closed: ${processNames(left)}`,
      "yellow",
    ];
  if (survivors.length === 0) return [`ended ${many(left)} that the turn left: ${processNames(left)}`, "dim"];
  return [
    `the turn left ${many(left)} running, and these survived SIGKILL: ${processNames(survivors)}`,
    "red",
  ];
}

const NAMED_PROCESSES = 5;

export function processNames(
  processes: readonly { readonly pid: number; readonly command: string }[],
): string {
  const named = processes.slice(0, NAMED_PROCESSES).map(({ pid, command }) => `${command} (pid ${pid})`);
  return `${named.join(", ")}${processes.length > NAMED_PROCESSES ? ", …" : ""}`;
}

export const CONTEXT_LOST_NOTICE: Notice = [
  "the agent was restarted and lost the context of earlier turns",
  "yellow",
];

export type WatchedUpdate = ResponseOf<"acpWatch">["updates"][number];

/** Shows the updates of a session in one format. */
export interface AcpView {
  show(update: WatchedUpdate): void;
  /** A turn that the command waited for has ended. */
  turnEnded(turn: ShownTurn): void;
  /** Prints a notice beside the agent's text. */
  notice(remark: Notice): void;
  /** The next output does not come from the view. */
  flush(): void;
}

/** The fields of a turn that an update carries. */
export type TurnChange = Pick<ShownTurn, "turnId" | "state"> &
  Partial<Pick<ShownTurn, "prompt" | "outcome" | "stopReason" | "problem" | "stalledAt">>;
