import { sanitizeLine } from "../../text/sanitize.js";
import type { ResponseOf } from "../../api/contract.js";
import { formatDuration } from "../options/units.js";
import { openReadClient } from "../client/read-client.js";
import { toJson } from "../json.js";
import { print } from "../print/stdout.js";
import type { ShownTurn } from "./view/turn-result.js";
import { expiryText, permissionSubject } from "./permission-line.js";
import { resolveAcpSession } from "../client/resolve-acp-session.js";
import { toOneLine } from "./view/formats.js";

type AcpSessionDetails = ResponseOf<"acpShow">;

export async function showAcpSession(wanted: string, json: boolean): Promise<number> {
  await using reader = await openReadClient();
  const { sessionId } = await resolveAcpSession(reader.client, wanted);
  const shown = await reader.client.acpShow({ params: { id: sessionId } });
  print(json ? toJson(shown, 2) : sessionText(shown, Date.now()));
  return 0;
}

/** Of an agent's stderr, what may still matter. */
const STDERR_LINES = 5;

function sessionText(
  { session, turns, permissions, tree, stderr, client }: AcpSessionDetails,
  now: number,
): string {
  const { key, sessionId, state, problem, agent, command, cwd, mode, runId, rules, reap } = session;
  const facts: [string, string][] = [
    ["session", `${key} (${sessionId})`],
    ["state", problem === null || state === "closed" ? state : `${state}: ${problem.message}`],
    ["agent", agent === null ? command : `${agent}: ${command}`],
    ["directory", cwd],
    ["mode", mode],
    ["rules", rules.map(ruleText).join(", ") || "none: everything is refused"],
    ["reaps", REAP_TEXT[reap]],
    ["offers", offerText(client, cwd)],
    ["run", runId ?? "-"],
    ["processes", tree.processes.length === 0 ? tree.why : `${tree.processes.length}; ${tree.why}`],
    ...tree.processes.map(({ pid, command: own }): [string, string] => ["", `${pid} ${own}`]),
    ...lastLines(stderr).map((said): [string, string] => ["stderr", said]),
    ...permissions.map((each): [string, string] => [
      "asks",
      `${each.id} ${permissionSubject(each)} (${expiryText(each, now)})`,
    ]),
    ...turns.map((turn): [string, string] => ["turn", turnSummary(turn, now)]),
  ];
  const width = Math.max(...facts.map(([name]) => name.length));
  return facts.map(([name, value]) => `${name.padEnd(width)}  ${sanitizeLine(value)}\n`).join("");
}

function lastLines(stderr: string): string[] {
  return stderr
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(-STDERR_LINES);
}

function ruleText({ effect, kind, title }: AcpSessionDetails["session"]["rules"][number]): string {
  const what = [kind, title === undefined ? undefined : JSON.stringify(title)].filter(
    (each) => each !== undefined,
  );
  return `${effect} ${what.length === 0 ? "everything" : what.join(" ")}`;
}

function offerText({ files, roots, terminals }: AcpSessionDetails["client"], cwd: string): string {
  const offered = [
    ...(files === "none" ? [] : [`to ${FILE_ACCESS_TEXT[files]} files in ${[cwd, ...roots].join(", ")}`]),
    ...(terminals ? ["terminals"] : []),
  ];
  return offered.join("; ") || "nothing";
}

const FILE_ACCESS_TEXT = { read: "read", "read-write": "read and write" } as const;

const REAP_TEXT = {
  asked: "what a turn leaves, when asked to",
  cancel: "what a cancelled turn leaves",
  always: "what any turn leaves",
} as const;

function turnSummary(
  { turnId, ordinal, state, outcome, prompt, startedAt, endedAt, createdAt }: ShownTurn,
  now: number,
): string {
  const since = formatDuration(Math.max(0, (endedAt ?? now) - (startedAt ?? createdAt)));
  const how = state === "ended" ? `${outcome} after ${since}` : `${state} for ${since}`;
  return `${ordinal}, ${how}: ${toOneLine(prompt).slice(0, 100)} (${turnId})`;
}
