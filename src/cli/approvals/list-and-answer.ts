import { constants } from "node:os";
import { isatty } from "node:tty";
import { followNdjson, type GatewayClient } from "../../api/client.js";
import { GatewayUnreachable, NotFound } from "../../errors.js";
import { gatewaySocketPath } from "../../home/state-directory.js";
import type { ApprovalView } from "../../sessions/approvals.js";
import { questionLines } from "../../sessions/paginate-question.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator, connectForReading, type GatewayConnection } from "../client/connect.js";
import type { JsonFlag } from "../options/command-definition.js";
import { formatElapsed } from "../../text/format-units.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, printOrThrow, toRecordJson } from "../print/write-output.js";
import { printTable } from "../print/table.js";
import {
  ask,
  printPaged,
  readWholeQuestion,
  showPaged,
  verdictIn,
  wholeQuestionLines,
} from "../print/terminal-prompt.js";

interface ListFlags extends JsonFlag {
  readonly follow?: true;
}

export function listApprovals({ follow, json = false }: ListFlags): Promise<number> {
  return follow === true ? followApprovals(json) : printApprovals(json);
}

/** Approvals exist only in a gateway: without one there are none. */
async function printApprovals(json: boolean): Promise<number> {
  assertOperator("list commands that wait for approval");
  const connection = await connectForReading();
  const approvals = connection === null ? [] : (await connection.client.listApprovals()).approvals;
  if (json) print(toRecordJson(approvals, 2));
  else if (approvals.length > 0) {
    // Rows are not cut to the terminal's width, because commands may be approved from this list.
    printTable(COLUMNS, approvals.map(approvalRow), null);
    if (approvals.some(({ question }) => question?.whole !== true))
      print(
        "part: the row shows only a part of what would run; `holdfast approvals show <approval>` shows all of it\n",
      );
  } else
    notice(
      connection === null
        ? "no gateway is running, so no command waits for approval"
        : "no command waits for approval",
      "dim",
    );
  return 0;
}

const COLUMNS = ["APPROVAL", "EXPIRES", "SESSION", "PROGRAM", "DIRECTORY", "SHOWN", "COMMAND"];

function approvalRow(approval: ApprovalView): string[] {
  const { id, sessionId, executable, command, cwd, expiresAt, question } = approval;
  const shown = question?.whole === true ? "all" : "part";
  return [id, `in ${formatElapsed(Date.now(), expiresAt)}`, sessionId, executable, cwd, shown, command];
}

/** Prints the whole command; on a terminal, screen by screen. */
export async function printApproval(id: string, { reveal, json }: ShowApprovalFlags): Promise<number> {
  const { client } = await connectAsOperator();
  const question = await readQuestion(client, id, reveal === true);
  const { first, ...rest } = question;
  if (json === true) print(toRecordJson({ approval: first.approval, ...rest }, 2));
  else if (!(await printPaged(wholeApprovalLines(question))))
    return exitCodes.signal + constants.signals.SIGINT;
  return 0;
}

interface ShowApprovalFlags extends JsonFlag {
  readonly reveal?: true;
}

export interface AnswerFlags extends JsonFlag {
  readonly digest?: string;
}

function readQuestion(client: GatewayClient, id: string, reveal: boolean) {
  assertApprovalId(id);
  return readWholeQuestion((page) =>
    client.showApproval({ params: { id }, query: { page, ...(reveal ? { reveal: "1" as const } : {}) } }),
  );
}

function wholeApprovalLines({ first, ...question }: Awaited<ReturnType<typeof readQuestion>>): string[] {
  const { approval } = first;
  const elsewhere = question.digest === null && approval.decision === null;
  return [
    headLine(approval),
    ...wholeQuestionLines(question, "holdfast approvals", approval.id),
    ...(elsewhere
      ? [
          "the approval is held by another gateway; run this command on the host of that gateway to see all of it",
        ]
      : []),
  ];
}

function headLine(approval: ApprovalView): string {
  const { id, sessionId, expiresAt, decision } = approval;
  if (decision !== null) return `${id}: ${decisionText(approval)}: ${sanitizeLine(approval.command)}`;
  return `${id}: session ${sessionId} requests to run this; expires in ${formatElapsed(Date.now(), expiresAt)}`;
}

export async function answerApproval(
  id: string,
  verdict: "allow" | "deny",
  { json, digest }: AnswerFlags,
): Promise<number> {
  return sendDecision(await connectAsOperator(), id, verdict, json === true, digest);
}

function assertApprovalId(id: string): void {
  if (!/^apr_[0-9a-z]{12}$/.test(id)) throw new NotFound(`approval ${id.slice(0, 200)}`);
}

/** An answer that came too late is reported: the approval has expired, or was answered before. */
async function sendDecision(
  { client }: GatewayConnection,
  id: string,
  verdict: "allow" | "deny",
  json: boolean,
  digest?: string | null,
): Promise<number> {
  assertApprovalId(id);
  const shown = digest === undefined || digest === null ? {} : { digest };
  const answer = await client.decideApproval({ params: { id }, body: { verdict, ...shown } });
  if (json) print(toRecordJson(answer));
  else if (answer.decided) print(`${id}: ${verdict}\n`);
  else print(`${id}: too late, ${decisionText(answer.approval)}\n`);
  return answer.decided ? 0 : exitCodes.incomplete;
}

function decisionText({ decision }: ApprovalView): string {
  if (decision === null) return "it is held by another gateway";
  const { verdict, actor } = decision;
  return verdict === "expired" ? `it has expired (${actor})` : `${actor} answered ${verdict}`;
}

/** Follows approvals; on a terminal, asks about each. */
async function followApprovals(json: boolean): Promise<number> {
  const connection = await connectAsOperator();
  const { home, token } = connection;
  const interactive = !json && isatty(0) && isatty(2);
  const path = "/v1/approvals?follow=1";
  for await (const approval of followNdjson<ApprovalView>(
    { socketPath: gatewaySocketPath(home), token },
    path,
  )) {
    if (json) printOrThrow(toRecordJson(approval));
    else if (approval.decision !== null) printOrThrow(`${approval.id}: ${decisionText(approval)}\n`);
    else if (!interactive) printOrThrow(`${await questionText(connection, approval)}\n`);
    else if (!(await askOperator(connection, approval))) return exitCodes.signal + constants.signals.SIGINT;
  }
  return 0;
}

async function questionText({ client }: GatewayConnection, { id }: ApprovalView): Promise<string> {
  return wholeApprovalLines(await readQuestion(client, id, false)).join("\n");
}

/** False: Ctrl-C ended the command; the approval is still open. */
async function askOperator(connection: GatewayConnection, { id }: ApprovalView): Promise<boolean> {
  const { first, parts, digest } = await readQuestion(connection.client, id, false);
  const lines = [headLine(first.approval), ...questionLines(parts)];
  // The approval has ended, and its end is printed next; or it is open at another gateway.
  if (digest === null) return true;
  if (!(await showPaged(lines, process.stderr))) return false;
  let interrupted = false;
  const answer = await ask("allow it? [y/N/later] ", {
    onInterrupt: (end) => {
      interrupted = true;
      process.stderr.write("\n");
      end();
    },
  });
  if (interrupted) return false;
  const verdict = verdictIn(answer ?? "later");
  if (verdict !== null) await sendDecision(connection, id, verdict, false, digest);
  return true;
}

async function connectAsOperator(): Promise<GatewayConnection> {
  assertOperator("answer approvals");
  const connection = await connectForReading();
  if (connection === null)
    throw new GatewayUnreachable("no gateway is running, so no command waits for approval; nothing was done");
  return connection;
}
