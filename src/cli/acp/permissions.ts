import { constants } from "node:os";
import type { GatewayClient } from "../../api/client.js";
import { GatewayUnreachable, NotFound } from "../../errors.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator, connectForReading } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { resolveAcpSession } from "../client/resolve-acp-session.js";
import { readWholeQuestion, wholeQuestionLines } from "../print/approval-question.js";
import { exitCodes } from "../print/exit-code.js";
import { paletteFor } from "../print/palette.js";
import { notice } from "../print/stderr.js";
import { print, toRecordJson } from "../print/stdout.js";
import { formatTable } from "../print/table.js";
import { printPaged } from "../print/terminal-prompt.js";
import { expiryText, type PermissionRequest, permissionSubject } from "./view/formats.js";

export interface ListPermissionsRequest {
  readonly session: string | null;
  readonly all: boolean;
  readonly json: boolean;
}

export async function printPermissions({ session, all, json }: ListPermissionsRequest): Promise<number> {
  await using reader = await openReadClient();
  const of = session === null ? {} : { session: (await resolveAcpSession(reader.client, session)).sessionId };
  const query = { ...of, ...(all ? { all: "1" as const } : {}), limit: 1_000 };
  const { permissions } = await reader.client.acpPermissions({ query });
  if (json) print(toRecordJson(permissions, 2));
  else if (permissions.length === 0) notice("no agent asks for anything", "dim");
  else print(`${permissionTable(permissions, Date.now()).join("\n")}\n`);
  return 0;
}

/** Rows are not cut to the terminal's width, because permissions may be allowed from this list. */
function permissionTable(permissions: readonly PermissionRequest[], now: number): string[] {
  const rows = permissions.map((each) => [
    each.id,
    each.sessionId,
    permissionState(each, now),
    shownColumn(each),
    permissionSubject(each),
  ]);
  const [head, ...rest] = formatTable(["PERMISSION", "SESSION", "STATE", "SHOWN", "FOR"], rows, null);
  const hint = permissions.some((each) => shownColumn(each) === "part")
    ? [
        "part: the row shows only a part of the request; `holdfast acp permissions show <permission>` shows all of it",
      ]
    : [];
  return [paletteFor(1).bold(head ?? ""), ...rest, ...hint];
}

function shownColumn({ decision, question }: PermissionRequest): string {
  if (decision !== null) return "-";
  return question?.whole === true ? "all" : "part";
}

export interface ShowPermissionFlags {
  readonly reveal?: true;
  readonly json?: true;
}

/** Prints the whole request; on a terminal, screen by screen. */
export async function showPermission(id: string, { reveal, json }: ShowPermissionFlags): Promise<number> {
  const client = await operatorClient(id);
  const question = await readPermissionQuestion(client, id, reveal === true);
  const { first, ...rest } = question;
  if (json === true) print(toRecordJson({ permission: first.permission, ...rest }, 2));
  else {
    const head = `${id}: session ${first.permission.sessionId}, ${permissionState(first.permission, Date.now())}`;
    const all = [head, ...wholeQuestionLines(question, "holdfast acp permissions", id)];
    if (!(await printPaged(all))) return exitCodes.signal + constants.signals.SIGINT;
  }
  return 0;
}

export function readPermissionQuestion(client: GatewayClient, id: string, reveal: boolean) {
  return readWholeQuestion((page) =>
    client.acpQuestion({ params: { id }, query: { page, ...(reveal ? { reveal: "1" as const } : {}) } }),
  );
}

async function operatorClient(id: string): Promise<GatewayClient> {
  assertOperator("answer permission requests of agents");
  if (!/^prm_[0-9a-z]{12}$/.test(id)) throw new NotFound(`permission ${id.slice(0, 200)}`);
  const connection = await connectForReading();
  if (connection === null)
    throw new GatewayUnreachable(
      "no gateway is running, so the permission request cannot be shown or answered; nothing was done",
    );
  return connection.client;
}

function permissionState(permission: PermissionRequest, now: number): string {
  const { decision } = permission;
  return decision === null
    ? expiryText(permission, now)
    : `${decision.verdict} (${sanitizeLine(decision.actor)})`;
}

/** An answer that came too late is reported: the request was answered before, or has expired. */
export async function answerPermission(
  id: string,
  verdict: "allow" | "deny",
  { json, digest }: { readonly json?: true; readonly digest?: string },
): Promise<number> {
  const client = await operatorClient(id);
  const shown = digest === undefined ? {} : { digest };
  const answer = await client.acpAnswer({ params: { id }, body: { verdict, ...shown } });
  const { permission, decided } = answer;
  const done = decided && permission.decision?.verdict === verdict;
  if (json === true) print(toRecordJson(answer));
  else if (done) print(`${id}: ${verdict}\n`);
  else if (decided) print(`${id}: cancelled, its agent does not offer to be allowed this once\n`);
  else print(`${id}: too late, ${permissionState(permission, Date.now())}\n`);
  return done ? 0 : exitCodes.incomplete;
}
