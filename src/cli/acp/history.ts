import { isatty } from "node:tty";
import { sanitizeLine, sanitizeText } from "../../text/sanitize.js";
import { notice } from "../print/stderr.js";
import { formatDuration } from "../options/units.js";
import { openReadClient } from "../client/read-client.js";
import { toJson } from "../json.js";
import { paletteFor, type Palette } from "../print/palette.js";
import { print } from "../print/stdout.js";
import { auditNotice, type ShownTurn } from "./view/turn-result.js";
import { resolveAcpSession } from "../client/resolve-acp-session.js";
import { toolLine } from "./view/formats.js";

/** Where there is no terminal to be as wide as. */
const NON_TERMINAL_WIDTH = 200;

/** What was asked and answered, oldest first. */
export async function showAcpHistory(wanted: string, limit: number, json: boolean): Promise<number> {
  await using reader = await openReadClient();
  const { sessionId } = await resolveAcpSession(reader.client, wanted);
  const { turns } = await reader.client.acpHistory({ params: { id: sessionId }, query: { limit } });
  const ordered = turns.toReversed();
  if (json) print(toJson(ordered, 2));
  else if (ordered.length === 0) notice("nothing was asked in it", "dim");
  else print(ordered.map((turn) => formatTurn(turn, paletteFor(1), turn.ordinal)).join("\n"));
  return 0;
}

/** `number`: what it is called there. */
export function formatTurn(turn: ShownTurn, palette: Palette, number: number): string {
  const { createdAt, askedBy, prompt, text, toolCalls, problem, audit } = turn;
  const head = `#${number} ${new Date(createdAt).toISOString().slice(0, 19)}Z ${sanitizeLine(askedBy)}, ${turnOutcomeText(turn)}`;
  const asked = sanitizeText(prompt).trimEnd().replaceAll(/^/gm, "> ");
  const left = audit === null ? null : auditNotice(audit);
  const parts = [
    palette.dim(head),
    palette.bold(asked),
    ...toolCalls.map((call) =>
      toolLine(call, isatty(1) ? process.stdout.columns : NON_TERMINAL_WIDTH, palette),
    ),
    ...(text === "" ? [] : [sanitizeText(text).trimEnd()]),
    ...(problem === null ? [] : [palette.red(`! ${sanitizeLine(problem.message)}`)]),
    ...(left === null ? [] : [palette.yellow(`! ${sanitizeLine(left[0])}`)]),
  ];
  return `${parts.join("\n")}\n`;
}

function turnOutcomeText({ state, outcome, stopReason, startedAt, endedAt, contextLost }: ShownTurn): string {
  if (state !== "ended" || endedAt === null) return state;
  const took = startedAt === null ? "" : ` after ${formatDuration(Math.max(0, endedAt - startedAt))}`;
  const why =
    stopReason === null || stopReason === "end_turn" || stopReason === outcome ? "" : ` (${stopReason})`;
  return sanitizeLine(`${outcome ?? "ended"}${why}${took}${contextLost ? ", context lost" : ""}`);
}
