import { isatty } from "node:tty";
import { sanitizeLine } from "../../text/sanitize.js";
import { notice } from "../print/stderr.js";
import { formatDuration } from "../options/units.js";
import { openReadClient } from "../client/read-client.js";
import { toJson } from "../json.js";
import { paletteFor } from "../print/palette.js";
import { print } from "../print/stdout.js";
import { formatTable } from "../print/table.js";
import type { AcpSessionSummary } from "../client/resolve-acp-session.js";

export async function printAcpSessions(all: boolean, limit: number, json: boolean): Promise<number> {
  await using reader = await openReadClient();
  const { sessions } = await reader.client.acpList({ query: { limit, ...(all ? { all: "1" } : {}) } });
  if (json) print(toJson(sessions, 2));
  else if (sessions.length === 0) notice("there are no ACP sessions to be seen", "dim");
  else print(`${sessionTable(sessions, Date.now(), isatty(1) ? process.stdout.columns : null).join("\n")}\n`);
  return 0;
}

function sessionTable(sessions: readonly AcpSessionSummary[], now: number, width: number | null): string[] {
  const rows = sessions.map(({ sessionId, key, state, agent, mode, createdAt, cwd }) => [
    sanitizeLine(key),
    sessionId,
    state,
    sanitizeLine(agent ?? "-"),
    mode,
    `${formatDuration(Math.max(0, now - createdAt))} ago`,
    sanitizeLine(cwd),
  ]);
  const head = ["NAME", "SESSION", "STATE", "AGENT", "MODE", "CREATED", "DIRECTORY"];
  const [first, ...rest] = formatTable([head, ...rows], width);
  return [paletteFor(1).bold(first ?? ""), ...rest];
}
