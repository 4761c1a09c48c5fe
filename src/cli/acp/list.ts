import { isatty } from "node:tty";
import { sanitizeLine } from "../../output/sanitize.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { openLook } from "../gateway/look.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { print } from "../runs/print.js";
import { table } from "../runs/table.js";
import type { Session } from "./pick-session.js";

export async function listSessions(all: boolean, limit: number, json: boolean): Promise<number> {
  await using look = await openLook();
  const { sessions } = await look.client.acpList({ query: { limit, ...(all ? { all: "1" } : {}) } });
  if (json) print(toJson(sessions, 2));
  else if (sessions.length === 0) say("there are no ACP sessions to be seen", "dim");
  else print(`${lines(sessions, Date.now(), isatty(1) ? process.stdout.columns : null).join("\n")}\n`);
  return 0;
}

function lines(sessions: readonly Session[], now: number, width: number | null): string[] {
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
  const [first, ...rest] = table([head, ...rows], width);
  return [paletteFor(1).bold(first ?? ""), ...rest];
}
