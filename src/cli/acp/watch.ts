import type { GatewayClient } from "../../api/client.js";
import type { GatewayConnection } from "../client/connect.js";
import type { ReadApi } from "../client/connect.js";
import { openReadClient, tryConnectForReading } from "../client/read-client.js";
import { retryUntilAnswered } from "../client/reconnect.js";
import { resolveAcpSession } from "../client/resolve-acp-session.js";
import { dieBySignal } from "../run/interrupts.js";
import { PermissionPrompter } from "./permission-prompt.js";
import { canAnswerPrompts } from "./prompt.js";
import type { OutputFormat } from "./view/formats.js";
import { AcpUpdateStream, type AcpView, type TurnChange, type WatchedUpdate } from "./view/updates.js";
import { createView } from "./view/view.js";

export interface WatchSessionRequest {
  readonly session: string;
  readonly format: OutputFormat;
  readonly thoughts: boolean;
  /** The number of the last known update; null: only new updates. */
  readonly after: number | null;
}

/** Shows a session until it is closed. Without a gateway: what is recorded. */
export async function watchSession(request: WatchSessionRequest): Promise<number> {
  const view = createView(request.format, { thoughts: request.thoughts, watching: true });
  const connection = await tryConnectForReading();
  if (connection === null) await showStored(request, view);
  else await watchLive(connection, request, view);
  view.flush();
  return 0;
}

async function watchLive(
  connection: GatewayConnection,
  { session, format, after }: WatchSessionRequest,
  view: AcpView,
): Promise<void> {
  const { sessionId, seq } = await resolveAcpSession(connection.client, session);
  const notice = (message: string): void => view.notice([message, "dim"]);
  const updates = new AcpUpdateStream({ connection, sessionId, after: after ?? seq, notice });
  using prompter = new PermissionPrompter({
    view,
    interactive: format !== "json" && canAnswerPrompts(),
    client: () => updates.client,
    // A watcher has nothing to cancel.
    onInterrupt: () => dieBySignal("SIGINT"),
  });
  const all = async (): Promise<void> => {
    for await (const update of updates) {
      prompter.handleUpdate(update);
      await retryUntilAnswered(updates.connection, (client) => showTurnEnd(client, sessionId, update, view));
    }
  };
  await Promise.race([all(), prompter.failure]);
}

async function showStored({ session, after }: WatchSessionRequest, view: AcpView): Promise<void> {
  await using reader = await openReadClient();
  const { sessionId, seq } = await resolveAcpSession(reader.client, session);
  for await (const update of storedUpdates(reader.client, sessionId, after ?? seq)) {
    view.show(update);
    await showTurnEnd(reader.client, sessionId, update, view);
  }
}

async function* storedUpdates(
  client: ReadApi,
  sessionId: string,
  after: number,
): AsyncGenerator<WatchedUpdate, void, undefined> {
  for (let last = after; ;) {
    const page = await client.acpWatch({ params: { id: sessionId }, query: { after: last } });
    if (page.updates.length === 0) return;
    yield* page.updates;
    last = page.after;
  }
}

async function showTurnEnd(
  client: Pick<GatewayClient, "acpHistory">,
  sessionId: string,
  { type, data }: WatchedUpdate,
  view: AcpView,
): Promise<void> {
  const { state, turnId } = data as TurnChange;
  if (type !== "turn" || state !== "ended") return;
  const { turns } = await client.acpHistory({ params: { id: sessionId }, query: { turn: turnId } });
  for (const turn of turns) view.turnEnded(turn);
}
