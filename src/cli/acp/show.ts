import { sanitizeLine } from "../../output/sanitize.js";
import type { AnswerOf } from "../../gateway/contract/contract.js";
import { formatDuration } from "../duration.js";
import { openLook } from "../gateway/look.js";
import { toJson } from "../json.js";
import { print } from "../runs/print.js";
import type { Turn } from "./ending.js";
import { expiryOf, subjectOf } from "./permission-line.js";
import { pickSession } from "./pick-session.js";
import { oneLine } from "./tool-line.js";

type Shown = AnswerOf<"acpShow">;

export async function showSession(wanted: string, json: boolean): Promise<number> {
  await using look = await openLook();
  const { sessionId } = await pickSession(look.client, wanted);
  const shown = await look.client.acpShow({ params: { id: sessionId } });
  print(json ? toJson(shown, 2) : text(shown, Date.now()));
  return 0;
}

/** Of an agent's stderr, what may still matter. */
const LAST_LINES = 5;

function text({ session, turns, permissions, tree, stderr, client }: Shown, now: number): string {
  const { key, sessionId, state, problem, agent, command, cwd, mode, runId, rules, reap } = session;
  const facts: [string, string][] = [
    ["session", `${key} (${sessionId})`],
    ["state", problem === null || state === "closed" ? state : `${state}: ${problem.message}`],
    ["agent", agent === null ? command : `${agent}: ${command}`],
    ["directory", cwd],
    ["mode", mode],
    ["rules", rules.map(ruleText).join(", ") || "none: everything is refused"],
    ["reaps", REAPS[reap]],
    ["offers", offerText(client, cwd)],
    ["run", runId ?? "-"],
    ["processes", tree.processes.length === 0 ? tree.why : `${tree.processes.length}; ${tree.why}`],
    ...tree.processes.map(({ pid, command: own }): [string, string] => ["", `${pid} ${own}`]),
    ...lastLines(stderr).map((said): [string, string] => ["stderr", said]),
    ...permissions.map((each): [string, string] => [
      "asks",
      `${each.id} ${subjectOf(each)} (${expiryOf(each, now)})`,
    ]),
    ...turns.map((turn): [string, string] => ["turn", turnText(turn, now)]),
  ];
  const width = Math.max(...facts.map(([name]) => name.length));
  return facts.map(([name, value]) => `${name.padEnd(width)}  ${sanitizeLine(value)}\n`).join("");
}

function lastLines(stderr: string): string[] {
  return stderr
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(-LAST_LINES);
}

function ruleText({ effect, kind, title }: Shown["session"]["rules"][number]): string {
  const what = [kind, title === undefined ? undefined : JSON.stringify(title)].filter(
    (each) => each !== undefined,
  );
  return `${effect} ${what.length === 0 ? "everything" : what.join(" ")}`;
}

function offerText({ files, roots, terminals }: Shown["client"], cwd: string): string {
  const offered = [
    ...(files === "none" ? [] : [`to ${FILES[files]} files in ${[cwd, ...roots].join(", ")}`]),
    ...(terminals ? ["terminals"] : []),
  ];
  return offered.join("; ") || "nothing";
}

const FILES = { read: "read", "read-write": "read and write" } as const;

const REAPS = {
  asked: "what a turn leaves, when asked to",
  cancel: "what a cancelled turn leaves",
  always: "what any turn leaves",
} as const;

function turnText(
  { turnId, ordinal, state, outcome, prompt, startedAt, endedAt, createdAt }: Turn,
  now: number,
): string {
  const since = formatDuration(Math.max(0, (endedAt ?? now) - (startedAt ?? createdAt)));
  const how = state === "ended" ? `${outcome} after ${since}` : `${state} for ${since}`;
  return `${ordinal}, ${how}: ${oneLine(prompt).slice(0, 100)} (${turnId})`;
}
