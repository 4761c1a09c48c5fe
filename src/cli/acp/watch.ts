import type { GatewayClient } from "../../gateway/client.js";
import { dieOf } from "../foreground/interrupts.js";
import type { Connection } from "../gateway/connect.js";
import { answeringGateway, openLook, type Looking } from "../gateway/look.js";
import { Desk } from "./desk.js";
import type { Format } from "./formats.js";
import { pickSession } from "./pick-session.js";
import { mayAnswer } from "./prompt.js";
import { untilAnswered } from "./until-answered.js";
import { Updates, type Update } from "./updates.js";
import { viewOf, type TurnNews, type View } from "./view.js";

export interface WatchRequest {
  readonly session: string;
  readonly format: Format;
  readonly thoughts: boolean;
  /** The number of the last update that is known; null: only what comes from now on. */
  readonly after: number | null;
}

/** Everything that happens in a session, until it is closed. Without a gateway: what has happened. */
export async function watchSession(request: WatchRequest): Promise<number> {
  const view = viewOf(request.format, { thoughts: request.thoughts, watching: true });
  const connection = await answeringGateway();
  if (connection === null) await readStored(request, view);
  else await watch(connection, request, view);
  view.settle();
  return 0;
}

async function watch(
  connection: Connection,
  { session, format, after }: WatchRequest,
  view: View,
): Promise<void> {
  const { sessionId, seq } = await pickSession(connection.client, session);
  const tell = (message: string): void => view.remark([message, "dim"]);
  const updates = new Updates({ connection, sessionId, after: after ?? seq, say: tell });
  using desk = new Desk({
    view,
    asks: format !== "json" && mayAnswer(),
    client: () => updates.client,
    // Whoever only watches has nothing to cancel.
    interrupted: () => dieOf("SIGINT"),
  });
  const all = async (): Promise<void> => {
    for await (const update of updates) {
      desk.take(update);
      await untilAnswered(updates.connection, (client) => tellEnd(client, sessionId, update, view));
    }
  };
  await Promise.race([all(), desk.broken]);
}

async function readStored({ session, after }: WatchRequest, view: View): Promise<void> {
  await using look = await openLook();
  const { sessionId, seq } = await pickSession(look.client, session);
  for await (const update of pages(look.client, sessionId, after ?? seq)) {
    view.show(update);
    await tellEnd(look.client, sessionId, update, view);
  }
}

async function* pages(
  client: Looking,
  sessionId: string,
  after: number,
): AsyncGenerator<Update, void, undefined> {
  for (let last = after; ;) {
    const page = await client.acpWatch({ params: { id: sessionId }, query: { after: last } });
    if (page.updates.length === 0) return;
    yield* page.updates;
    last = page.after;
  }
}

async function tellEnd(
  client: Pick<GatewayClient, "acpHistory">,
  sessionId: string,
  { type, data }: Update,
  view: View,
): Promise<void> {
  const { state, turnId } = data as TurnNews;
  if (type !== "turn" || state !== "ended") return;
  const { turns } = await client.acpHistory({ params: { id: sessionId }, query: { turn: turnId } });
  for (const turn of turns) view.ended(turn);
}
