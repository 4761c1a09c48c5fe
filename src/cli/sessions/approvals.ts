import { once } from "node:events";
import { constants } from "node:os";
import { createInterface } from "node:readline/promises";
import { isatty } from "node:tty";
import { GatewayUnreachable, NotFound } from "../../errors.js";
import { followLines } from "../../gateway/follow-lines.js";
import { gatewaySocket } from "../../gateway/server/listen.js";
import { sanitizeLine } from "../../output/sanitize.js";
import type { Approval } from "../../store/approval-record.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { exitCodes } from "../exit-code.js";
import { mustBeOperator, runningGateway, type Connection } from "../gateway/connect.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { print, printOn } from "../runs/print.js";
import { table } from "../runs/table.js";

/** Questions that wait. They live with the gateway: without one, nobody waits. */
export async function listApprovals(json: boolean): Promise<number> {
  mustBeOperator("see what waits for approval");
  const connection = await runningGateway();
  const approvals = connection === null ? [] : (await connection.client.listApprovals()).approvals;
  if (json) print(toJson(approvals, 2));
  else if (approvals.length > 0)
    print(`${approvalLines(approvals, Date.now(), isatty(1) ? process.stdout.columns : null).join("\n")}\n`);
  else say(connection === null ? "no gateway is running: nobody waits" : "nobody waits for an answer", "dim");
  return 0;
}

function approvalLines(approvals: readonly Approval[], now: number, width: number | null): string[] {
  const rows = approvals.map(({ id, sessionId, executable, command, cwd, expiresAt }) => [
    id,
    `in ${formatDuration(Math.max(0, expiresAt - now))}`,
    sessionId,
    sanitizeLine(executable),
    sanitizeLine(cwd),
    sanitizeLine(command),
  ]);
  const [head, ...lines] = table(
    [["APPROVAL", "EXPIRES", "SESSION", "PROGRAM", "DIRECTORY", "COMMAND"], ...rows],
    width,
  );
  return [paletteFor(1).bold(head ?? ""), ...lines];
}

export async function decideApproval(id: string, verdict: "allow" | "deny", json: boolean): Promise<number> {
  return decide(await mustRun(), id, verdict, json);
}

/** Said, too, when it came too late: then nothing was executed, or somebody else has decided. */
async function decide(
  { client }: Connection,
  id: string,
  verdict: "allow" | "deny",
  json: boolean,
): Promise<number> {
  if (!/^apr_[0-9a-z]{12}$/.test(id)) throw new NotFound(`approval ${id}`);
  const answer = await client.decideApproval({ params: { id }, body: { verdict } });
  if (json) print(toJson(answer));
  else if (answer.decided) print(`${id}: ${verdict}\n`);
  else print(`${id}: too late, ${decisionText(answer.approval)}\n`);
  return answer.decided ? 0 : exitCodes.incomplete;
}

function decisionText({ decision }: Approval): string {
  if (decision === null) return "another gateway's caller waits for it";
  const { verdict, actor } = decision;
  return verdict === "expired" ? `it has expired (${actor})` : `${actor} said ${verdict}`;
}

/** Each question as it comes; on a terminal it is asked there and then. */
export async function followApprovals(json: boolean): Promise<number> {
  const connection = await mustRun();
  const { home, token } = connection;
  const asks = !json && isatty(0) && isatty(2);
  const path = "/v1/approvals?follow=1";
  for await (const approval of followLines<Approval>({ socketPath: gatewaySocket(home), token }, path)) {
    if (json) printOn(toJson(approval));
    else if (approval.decision !== null) printOn(`${approval.id}: ${decisionText(approval)}\n`);
    else if (!asks) printOn(`${questionText(approval)}\n`);
    else if (!(await ask(connection, approval))) return exitCodes.signal + constants.signals.SIGINT;
  }
  return 0;
}

function questionText({ id, sessionId, command, executable, cwd, expiresAt }: Approval): string {
  const left = formatDuration(Math.max(0, expiresAt - Date.now()));
  return sanitizeLine(`${id}: ${sessionId} wants ${command} (${executable}, in ${cwd}); expires in ${left}`);
}

/** False: Ctrl-C, which leaves; the question still waits. */
async function ask(connection: Connection, approval: Approval): Promise<boolean> {
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await Promise.race([
      // Not every Node rejects it when it is closed.
      asking.question(`${questionText(approval)}\nallow it? [y/N/later] `).catch(() => "later"),
      once(asking, "close").then(() => "later"),
      once(asking, "SIGINT").then(() => null),
    ]);
    if (answer === null) {
      process.stderr.write("\n");
      return false;
    }
    if (!/^l/i.test(answer.trim()))
      await decide(connection, approval.id, /^y(es)?$/i.test(answer.trim()) ? "allow" : "deny", false);
    return true;
  } finally {
    asking.close();
  }
}

async function mustRun(): Promise<Connection> {
  mustBeOperator("answer what waits for approval");
  const connection = await runningGateway();
  if (connection === null)
    throw new GatewayUnreachable("no gateway is running: nobody waits for an answer; nothing was done");
  return connection;
}
