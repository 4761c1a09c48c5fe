import { setTimeout } from "node:timers/promises";
import { GatewayUnreachable, NotFound } from "../../errors.js";
import { deferred } from "../../supervisor/deferred.js";
import type { Connection } from "../gateway/connect.js";
import { Desk } from "./desk.js";
import { turnCode, type Turn } from "./ending.js";
import type { Interrupts } from "./interrupts.js";
import type { Session } from "./pick-session.js";
import { untilAnswered } from "./until-answered.js";
import { Updates, type Update } from "./updates.js";
import type { TurnNews, View } from "./view.js";

export interface Following {
  readonly connection: Connection;
  readonly session: Pick<Session, "sessionId" | "key">;
  readonly turn: Turn;
  /** The number of the last update from before the turn. */
  readonly after: number;
  readonly view: View;
  readonly asks: boolean;
  readonly interrupts: Interrupts;
}

/** What a turn left is looked at when it has ended, within this time: two seconds to go, and some to look. */
const AUDIT_MS = 10_000;
/** A gateway that is coming up. */
const AGAIN_MS = 100;

/** Show a turn until it has ended. Null: the user did not wait for that. */
export async function followTurn(following: Following): Promise<Turn | null> {
  const { connection, session, turn, after, view, asks, interrupts } = following;
  const { sessionId } = session;
  const { turnId } = turn;
  const tell = (message: string): void => view.remark([message, "dim"]);
  const updates = new Updates({ connection, sessionId, after, say: tell });
  using desk = new Desk({
    view,
    asks,
    client: () => updates.client,
    interrupted: () => interrupts.receive("SIGINT"),
  });
  interrupts.from(() => {
    tell("cancelling the turn; Ctrl-C again leaves that to the gateway");
    cancel(updates, sessionId, turnId).catch((error: unknown) => tell((error as Error).message));
  });
  const shown = showUntilEnd(updates, turnId, desk);
  const waited = await Promise.race([
    shown.then(() => true),
    interrupts.insisted.then(() => false),
    desk.broken,
  ]);
  if (!waited) return null;
  const { answer } = await untilAnswered(updates.connection, (client) =>
    client.acpHistory({ params: { id: sessionId }, query: { turn: turnId } }),
  );
  const [ended] = answer.turns;
  if (ended === undefined) throw new NotFound(`turn ${turnId}`);
  return ended;
}

/** Its own updates, and what became of its session. */
async function showUntilEnd(updates: Updates, turnId: string, desk: Desk): Promise<void> {
  const late = deferred<void>();
  const all = (async () => {
    let began = false;
    for await (const update of updates) {
      if (!belongs(update, turnId)) continue;
      desk.take(update);
      if (update.type === "audit") return;
      if (update.type !== "turn") continue;
      const news = update.data as TurnNews;
      began ||= news.state === "running";
      if (news.state !== "ended") continue;
      if (!began || !isLookedAfter(news)) return;
      void setTimeout(AUDIT_MS).then(() => late.resolve());
    }
  })();
  await Promise.race([all, late.promise]);
}

function belongs({ type, turnId }: Update, wanted: string): boolean {
  return turnId === null ? type === "context-lost" || type === "session" : turnId === wanted;
}

/** Where the agent is gone, or was never asked, nothing can be left of it. */
function isLookedAfter({ outcome, problem }: TurnNews): boolean {
  if (outcome === "completed" || outcome === "cancel-unconfirmed") return true;
  return outcome === "cancelled" ? problem === null : problem?.code === "ACP_REFUSED";
}

/** By whichever gateway there is. */
async function cancel(updates: Updates, sessionId: string, turnId: string): Promise<void> {
  for (;;)
    try {
      await updates.client.acpCancel({ params: { id: sessionId }, body: { turnId } });
      return;
    } catch (error) {
      if (!(error instanceof GatewayUnreachable)) throw error;
      await setTimeout(AGAIN_MS);
    }
}

/** What the command ends with. */
export function followedCode(turn: Turn, interrupts: Interrupts): number {
  return turn.outcome === "cancelled" ? (interrupts.code ?? turnCode(turn)) : turnCode(turn);
}
