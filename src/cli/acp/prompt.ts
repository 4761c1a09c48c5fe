import { text } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import { isatty } from "node:tty";
import { deferred } from "../../async/deferred.js";
import { BadInput, GatewayUnreachable, NotFound } from "../../errors.js";
import { newTurnId } from "../../model/ids.js";
import { connectOrStart, type GatewayConnection } from "../client/connect.js";
import {
  channellessOption,
  misplacedNotifyOption,
  notifyBody,
  type NotifyFlags,
  warnIfNobodyNotified,
} from "../client/notify-options.js";
import { retryUntilAnswered } from "../client/reconnect.js";
import { sessionToken } from "../client/requester.js";
import { type AcpSessionSummary, resolveAcpSession } from "../client/resolve-acp-session.js";
import type { JsonFlag } from "../options/command-definition.js";
import { type DetachFlags, isDetached } from "../options/parsers.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { TurnInterrupts } from "./turn-interrupts.js";
import { type ContentFlags, readPromptContent, readPromptFile } from "./prompt-content.js";
import { PermissionPrompter } from "./permissions/prompter.js";
import {
  type AcpView,
  omittedTextNotice,
  type OutputFormat,
  type ShownTurn,
  type TurnChange,
  turnExitCode,
  type WatchedUpdate,
} from "./view/notice-texts.js";
import { createView } from "./view/create-view.js";
import { AcpUpdateStream } from "./view/update-stream.js";

export interface DisplayFlags extends JsonFlag {
  readonly format?: OutputFormat;
  readonly thoughts?: true;
  readonly timeout?: number;
  readonly noOutputTimeout?: number;
}

/** `--no-wait` is the former spelling of `--detach`. */
type PromptFlags = DisplayFlags & NotifyFlags & DetachFlags & ContentFlags & { readonly wait: boolean };

interface TurnToShow {
  readonly connection: GatewayConnection;
  readonly session: AcpSessionSummary;
  readonly turn: ShownTurn;
  /** The number of the last update from before the turn. */
  readonly after: number;
  readonly display: DisplayFlags;
  readonly interrupts: TurnInterrupts;
  /** The record that `--json` prints. */
  readonly record: (turn: ShownTurn) => object;
}

/**
 * Processes that a turn left are inspected when it has ended, within this time: two seconds to end, and some to
 * inspect.
 */
const AUDIT_MS = 10_000;
/** A gateway that is starting answers within this time. */
const RETRY_MS = 100;

/** Follows a turn until it has ended. Null: the user left before. */
async function followTurn(shown: TurnToShow, view: AcpView): Promise<ShownTurn | null> {
  const { connection, after, interrupts, display } = shown;
  const { sessionId } = shown.session;
  const { turnId } = shown.turn;
  const noticeInView = (message: string): void => view.notice([message, "dim"]);
  const updates = new AcpUpdateStream({ connection, sessionId, after, notice: noticeInView });
  using prompter = new PermissionPrompter({
    view,
    interactive: display.format !== "json" && display.json !== true && canAnswerPrompts(),
    client: () => updates.client,
    onInterrupt: () => interrupts.receive("SIGINT"),
  });
  interrupts.onFirst(() => {
    noticeInView("cancelling the turn; Ctrl-C again leaves that to the gateway");
    cancelUntilAnswered(updates, sessionId, turnId).catch((error: unknown) =>
      noticeInView((error as Error).message),
    );
  });
  const waited = await Promise.race([
    showUntilEnd(updates, turnId, prompter).then(() => true),
    interrupts.leaveRequested.then(() => false),
    prompter.failure,
  ]);
  if (!waited) return null;
  const { answer } = await retryUntilAnswered(updates.connection, (client) =>
    client.acpHistory({ params: { id: sessionId }, query: { turn: turnId } }),
  );
  const [ended] = answer.turns;
  if (ended === undefined) throw new NotFound(`turn ${turnId}`);
  return ended;
}

/** The updates of the turn, and changes of its session. */
async function showUntilEnd(
  updates: AcpUpdateStream,
  turnId: string,
  prompter: PermissionPrompter,
): Promise<void> {
  const late = deferred<void>();
  const all = (async () => {
    let began = false;
    for await (const update of updates) {
      if (!isOfTurn(update, turnId)) continue;
      prompter.handleUpdate(update);
      if (update.type === "audit") return;
      if (update.type !== "turn") continue;
      const news = update.data as TurnChange;
      began ||= news.state === "running";
      if (news.state !== "ended") continue;
      if (!began || !isAudited(news)) return;
      void setTimeout(AUDIT_MS).then(() => late.resolve());
    }
  })();
  await Promise.race([all, late.promise]);
}

function isOfTurn({ type, turnId }: WatchedUpdate, wanted: string): boolean {
  return turnId === null ? type === "context-lost" || type === "session" : turnId === wanted;
}

/** If the agent is gone, or never got the prompt, no process can be left. */
function isAudited({ outcome, problem }: TurnChange): boolean {
  if (outcome === "completed" || outcome === "cancel-unconfirmed") return true;
  if (outcome === "cancelled") return problem === null;
  return problem?.code === "ACP_REFUSED" || problem?.code === "ACP_AUTH_REQUIRED";
}

/** Requests it from the current gateway. */
async function cancelUntilAnswered(
  updates: AcpUpdateStream,
  sessionId: string,
  turnId: string,
): Promise<void> {
  for (;;)
    try {
      await updates.client.acpCancel({ params: { id: sessionId }, body: { turnId } });
      return;
    } catch (error) {
      if (!(error instanceof GatewayUnreachable)) throw error;
      await setTimeout(RETRY_MS);
    }
}

/** The limits of a turn, as the API takes them. */
export function turnLimits({ timeout, noOutputTimeout }: DisplayFlags): {
  readonly timeoutMs?: number;
  readonly noOutputTimeoutMs?: number;
} {
  return {
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
    ...(noOutputTimeout === undefined ? {} : { noOutputTimeoutMs: noOutputTimeout }),
  };
}

export function rejectNotifyOptions(flags: NotifyFlags): void {
  const misplaced = misplacedNotifyOption(flags);
  if (misplaced !== null) throw new BadInput("option", `${misplaced}: add --detach; nothing was sent`);
}

export function rejectChannellessOptions(flags: NotifyFlags): void {
  const channelless = channellessOption(flags);
  if (channelless !== null) throw new BadInput("option", `${channelless}; nothing was sent`);
}

/** Sends a prompt to an agent and shows its answer. */
export async function promptSession(
  wanted: string,
  prompt: string | undefined,
  flags: PromptFlags,
): Promise<number> {
  const { json = false } = flags;
  const wait = flags.wait && !isDetached(flags);
  if (wait) rejectNotifyOptions(flags);
  rejectChannellessOptions(flags);
  const words = await readPrompt(prompt, flags);
  const content = readPromptContent(prompt ?? "", flags);
  const found = await retryUntilAnswered(await connectOrStart(), (client) =>
    resolveAcpSession(client, wanted),
  );
  const session = found.answer;
  using interrupts = new TurnInterrupts(() => undefined);
  const params = { id: session.sessionId };
  const body = {
    text: words,
    ...(content.length === 0 ? {} : { content }),
    turnId: newTurnId(),
    wait: false,
    background: !wait,
    ...notifyBody(flags),
    ...turnLimits(flags),
  };
  const { answer, connection } = await retryUntilAnswered(found.connection, (client) =>
    client.acpPrompt({ params, body }),
  );
  const { turn } = answer;
  if (!wait) return await printBackgroundTurn(connection, session, turn, flags, json ? { turn } : null);
  if (!json) await noticeQueuePosition(connection, session, turn);
  const record = (ended: ShownTurn): object => ({ turn: ended });
  return await showTurn({
    connection,
    session,
    turn,
    after: session.seq,
    display: flags,
    interrupts,
    record,
  });
}

/** Shows a turn until it has ended or the user leaves. */
export async function showTurn(shown: TurnToShow): Promise<number> {
  const { session, turn, display, interrupts, record } = shown;
  const { format = "text", thoughts, json = false } = display;
  const view = createView(json ? "record" : format, { thoughts: thoughts === true, watching: false });
  const ended = await followTurn(shown, view);
  view.flush();
  if (ended === null) {
    notice(`left; the gateway continues to cancel the turn: holdfast acp show ${session.key}`, "yellow");
    return interrupts.exitCode ?? turnExitCode(turn);
  }
  view.turnEnded(ended);
  const omitted = omittedTextNotice(ended);
  if (omitted !== null) notice(...omitted);
  if (ended.droppedUpdates > 0)
    notice(
      `${ended.droppedUpdates} updates of the turn exceeded the limit of kept updates and are not shown`,
      "yellow",
    );
  if (json) print(toJson(record(ended)));
  const code = turnExitCode(ended);
  return ended.outcome === "cancelled" ? (interrupts.exitCode ?? code) : code;
}

/** The operator is at the terminal. */
export function canAnswerPrompts(): boolean {
  return isatty(0) && isatty(2) && sessionToken() === null;
}

/** Prints the id of a turn that runs in the background. */
export async function printBackgroundTurn(
  { client }: GatewayConnection,
  session: AcpSessionSummary,
  turn: ShownTurn,
  flags: NotifyFlags,
  record: object | null,
): Promise<number> {
  if (record !== null) print(toJson(record));
  else {
    print(`${turn.turnId}\n`);
    notice(
      `see it with \`holdfast acp watch ${session.key}\`; \`holdfast tasks wait ${turn.turnId}\` waits for its answer`,
      "dim",
    );
  }
  await warnIfNobodyNotified(client, turn.turnId, flags);
  return 0;
}

/** The prompt: the argument, or the file of `-f`; `-` is stdin. */
export async function readPrompt(
  argument: string | undefined,
  { promptFile }: ContentFlags,
): Promise<string> {
  if ((argument === undefined) === (promptFile === undefined))
    throw new BadInput("prompt", "give either a prompt or -f <file>; nothing was sent");
  const isStdin = argument === "-" || promptFile === "-";
  const fromFile = (): string => (promptFile === undefined ? (argument ?? "") : readPromptFile(promptFile));
  const prompt = isStdin ? await text(process.stdin) : fromFile();
  if (prompt.trim() === "") throw new BadInput("prompt", "the prompt is empty; nothing was sent");
  return prompt;
}

async function noticeQueuePosition(
  { client }: GatewayConnection,
  { sessionId }: AcpSessionSummary,
  { turnId, ordinal }: ShownTurn,
): Promise<void> {
  // Only information: an error does not end the command.
  const shown = await client.acpShow({ params: { id: sessionId } }).catch(() => null);
  const turns = shown?.turns ?? [];
  const before = turns.filter((each) => each.state !== "ended" && each.ordinal < ordinal).length;
  if (before > 0 && turns.some((each) => each.turnId === turnId && each.state === "queued"))
    notice(`queued, with ${before === 1 ? "one prompt" : `${before} prompts`} before it`, "dim");
}
