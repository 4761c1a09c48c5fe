import type { ResponseOf } from "../../api/contract.js";
import type { SessionMessage } from "../../model/session.js";
import { sanitizeLine, sanitizeText } from "../../text/sanitize.js";
import { formatTurn } from "../acp/sessions.js";
import { openReadClient } from "../client/read-client.js";
import { paletteFor } from "../print/palette.js";
import { notice } from "../print/stderr.js";
import { print, toRecordJson } from "../print/stdout.js";
import { type SessionFlags, sessionParams } from "./sessions.js";

export interface HistoryFlags extends SessionFlags {
  readonly limit: number;
  readonly before?: number;
}

type SessionHistory = ResponseOf<"sessionHistory">;

export async function showSessionHistory(wanted: string, { json, ...query }: HistoryFlags): Promise<number> {
  const params = sessionParams(wanted);
  await using reader = await openReadClient();
  const answer = await reader.client.sessionHistory({ params, query });
  const places = new Set([
    ...answer.messages.map(({ seq }) => seq),
    ...answer.turns.map(({ place }) => place),
  ]);
  const first = Math.min(...places);
  if (json === true) print(toRecordJson(answer));
  else if (places.size + answer.runs.length === 0) notice("nothing was said in it", "dim");
  else {
    if (first > 1 && places.size === query.limit) notice(`there may be more: --before ${first}`, "dim");
    print(historyEntries(answer).join("\n"));
  }
  return 0;
}

/** In order of time. */
function historyEntries({ messages, turns, runs }: SessionHistory): string[] {
  const palette = paletteFor(1);
  const entries = [
    // A message that is the whole prompt of a turn is shown with the turn.
    ...messages
      .filter(({ deliver, turnId }) => deliver !== "wake" || !turns.some((turn) => turn.turnId === turnId))
      .map((message) => ({ at: message.at, text: messageText(message, deliveryText(message, turns)) })),
    ...turns.map((turn) => ({ at: turn.createdAt, text: formatTurn(turn, palette, turn.place) })),
    ...runs.map((run) => ({ at: run.createdAt, text: runText(run) })),
  ];
  return entries.toSorted((one, other) => one.at - other.at).map(({ text }) => text);
}

export function messageText({ seq, role, actor, text, at }: SessionMessage, where: string): string {
  const head = `#${seq} ${role}, ${sanitizeLine(actor)}, ${new Date(at).toISOString()}`;
  return `${paletteFor(1).bold(`${head}${where}`)}\n${sanitizeText(text).trimEnd()}\n`;
}

function deliveryText(
  { deliver, turnId, inVain, deliveredAt }: SessionMessage,
  turns: SessionHistory["turns"],
): string {
  if (turnId === null) {
    if (deliveredAt !== null) return "";
    const before = inVain === 0 ? "" : `; told ${inVain === 1 ? "once" : `${inVain} times`}, not answered`;
    return deliver === "wake" ? " (waits)" : ` (waits for the next turn${before})`;
  }
  const turn = turns.find((each) => each.turnId === turnId);
  const name = turn === undefined ? turnId : `#${turn.place}`;
  if (deliveredAt !== null) return ` (told with ${name})`;
  return turn?.state === "ended"
    ? ` (not delivered: ${name} was ${turn.outcome})`
    : ` (on its way with ${name})`;
}

function runText({ runId, state, command, createdAt, exit }: SessionHistory["runs"][number]): string {
  const how = exit === null ? state : `${exit.reason} ${exit.signal ?? exit.code ?? ""}`.trimEnd();
  const head = `${runId} ${new Date(createdAt).toISOString()}, ${how}`;
  return `${paletteFor(1).bold(head)}\n$ ${sanitizeLine(command)}\n`;
}
