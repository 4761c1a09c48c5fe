import { setTimeout } from "node:timers/promises";
import { deferred } from "../../async/deferred.js";
import { GatewayUnreachable, NotFound } from "../../errors.js";
import type { GatewayConnection } from "../client/connect.js";
import { retryUntilAnswered } from "../client/reconnect.js";
import type { AcpSessionSummary } from "../client/resolve-acp-session.js";
import type { TurnInterrupts } from "../run/interrupts.js";
import { PermissionPrompter } from "./permission-prompt.js";
import { type ShownTurn, turnExitCode } from "./view/turn-result.js";
import { AcpUpdateStream, type WatchedUpdate } from "./view/updates.js";
import type { AcpView, TurnChange } from "./view/updates.js";

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
  const notice = (message: string): void => view.notice([message, "dim"]);
  const updates = new AcpUpdateStream({ connection, sessionId, after, notice });
  using prompter = new PermissionPrompter({
    view,
    interactive,
    client: () => updates.client,
    onInterrupt: () => interrupts.receive("SIGINT"),
  });
  interrupts.onFirst(() => {
    notice("cancelling the turn; Ctrl-C again leaves that to the gateway");
    cancelUntilAnswered(updates, sessionId, turnId).catch((error: unknown) =>
      notice((error as Error).message),
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
