import { text } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import { isatty } from "node:tty";
import type { RequestOf } from "../../api/contract.js";
import { deferred } from "../../async/deferred.js";
import { BadInput, GatewayUnreachable, NotFound } from "../../errors.js";
import { newTurnId } from "../../model/ids.js";
import { connectOrStart, type GatewayConnection } from "../client/connect.js";
import { warnIfNobodyNotified } from "../client/notify-options.js";
import { retryUntilAnswered } from "../client/reconnect.js";
import { sessionToken } from "../client/requester.js";
import { type AcpSessionSummary, resolveAcpSession } from "../client/resolve-acp-session.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { TurnInterrupts } from "../run/interrupts.js";
import { PermissionPrompter } from "./permissions.js";
import {
  type AcpView,
  type OutputFormat,
  type ShownTurn,
  type TurnChange,
  turnExitCode,
  type WatchedUpdate,
} from "./view/texts.js";
import { AcpUpdateStream, createView } from "./view/view.js";

export interface FollowTurnOptions {
  readonly connection: GatewayConnection;
  readonly session: Pick<AcpSessionSummary, "sessionId" | "key">;
  readonly turn: ShownTurn;
  /** The number of the last update from before the turn. */
  readonly after: number;
  readonly view: AcpView;
  readonly interactive: boolean;
  readonly interrupts: TurnInterrupts;
}

/**
 * Processes that a turn left are inspected when it has ended, within this time: two seconds to end, and some to
 * inspect.
 */
const AUDIT_MS = 10_000;
/** A gateway that is starting answers within this time. */
const RETRY_MS = 100;

/** Shows a turn until it has ended. Null: the user left before. */
export async function followTurn(following: FollowTurnOptions): Promise<ShownTurn | null> {
  const { connection, session, turn, after, view, interactive, interrupts } = following;
  const { sessionId } = session;
  const { turnId } = turn;
  const noticeInView = (message: string): void => view.notice([message, "dim"]);
  const updates = new AcpUpdateStream({ connection, sessionId, after, notice: noticeInView });
  using prompter = new PermissionPrompter({
    view,
    interactive,
    client: () => updates.client,
    onInterrupt: () => interrupts.receive("SIGINT"),
  });
  interrupts.onFirst(() => {
    noticeInView("cancelling the turn; Ctrl-C again leaves that to the gateway");
    cancelUntilAnswered(updates, sessionId, turnId).catch((error: unknown) =>
      noticeInView((error as Error).message),
    );
  });
  const shown = showUntilEnd(updates, turnId, prompter);
  const waited = await Promise.race([
    shown.then(() => true),
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

/** If the agent is gone, or was never asked, no process can be left. */
function isAudited({ outcome, problem }: TurnChange): boolean {
  if (outcome === "completed" || outcome === "cancel-unconfirmed") return true;
  return outcome === "cancelled" ? problem === null : problem?.code === "ACP_REFUSED";
}

/** Asks the current gateway. */
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

/** The exit code of the command. */
export function followedTurnExitCode(turn: ShownTurn, interrupts: TurnInterrupts): number {
  return turn.outcome === "cancelled" ? (interrupts.exitCode ?? turnExitCode(turn)) : turnExitCode(turn);
}

/** How the answer is shown. */
export interface AnswerDisplay {
  readonly format: OutputFormat;
  readonly thoughts: boolean;
  readonly json: boolean;
}

export interface AcpPromptRequest extends AnswerDisplay {
  readonly session: string;
  readonly prompt: string;
  readonly timeoutMs: number | null;
  readonly wait: boolean;
  readonly notification: Pick<RequestOf<"acpPrompt">["body"], "notify" | "origin">;
}

/** Sends a prompt to an agent and shows its answer. */
export async function promptSession(request: AcpPromptRequest): Promise<number> {
  const { prompt, timeoutMs, wait, json } = request;
  const words = await readPrompt(prompt);
  const found = await retryUntilAnswered(await connectOrStart(), (client) =>
    resolveAcpSession(client, request.session),
  );
  const session = found.answer;
  using interrupts = new TurnInterrupts(() => undefined);
  const params = { id: session.sessionId };
  const body = {
    text: words,
    turnId: newTurnId(),
    wait: false,
    background: !wait,
    ...request.notification,
    ...(timeoutMs === null ? {} : { timeoutMs }),
  };
  const { answer, connection } = await retryUntilAnswered(found.connection, (client) =>
    client.acpPrompt({ params, body }),
  );
  const { turn } = answer;
  if (!wait)
    return await printBackgroundTurn(connection, session, turn, request.notification, json ? { turn } : null);
  if (!json) await noticeQueuePosition(connection, session, turn);
  return await showTurn(connection, session, turn, session.seq, request, interrupts, (ended) => ({
    turn: ended,
  }));
}

/** Shows a turn until it has ended or the user leaves. */
export async function showTurn(
  connection: GatewayConnection,
  session: AcpSessionSummary,
  turn: ShownTurn,
  after: number,
  { format, thoughts, json }: AnswerDisplay,
  interrupts: TurnInterrupts,
  record: (turn: ShownTurn) => object,
): Promise<number> {
  const view = createView(json ? "record" : format, { thoughts, watching: false });
  const interactive = format !== "json" && !json && canAnswerPrompts();
  const ended = await followTurn({ connection, session, turn, after, view, interactive, interrupts });
  view.flush();
  if (ended === null) {
    notice(`left; the gateway goes on cancelling the turn: holdfast acp show ${session.key}`, "yellow");
    return interrupts.exitCode ?? turnExitCode(turn);
  }
  view.turnEnded(ended);
  if (ended.droppedUpdates > 0)
    notice(
      `${ended.droppedUpdates} updates of the turn were too many to be kept, and are not shown`,
      "yellow",
    );
  if (json) print(toJson(record(ended)));
  return followedTurnExitCode(ended, interrupts);
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
  notification: AcpPromptRequest["notification"],
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
  await warnIfNobodyNotified(client, turn.turnId, notification);
  return 0;
}

/** The prompt, or stdin for `-`. */
export async function readPrompt(said: string): Promise<string> {
  const prompt = said === "-" ? await text(process.stdin) : said;
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
