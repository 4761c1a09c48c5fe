import { constants } from "node:os";
import type { GatewayClient } from "../../../api/client.js";
import { BadInput, GatewayUnreachable, NotFound } from "../../../errors.js";
import type { PermissionRule } from "../../../model/acp/permission-rule.js";
import { omitUndefined } from "../../../model/record-type.js";
import { sanitizeLine } from "../../../text/sanitize.js";
import { assertOperator, connectForReading } from "../../client/connect.js";
import { openReadClient } from "../../client/read-client.js";
import { resolveAcpSession } from "../../client/resolve-acp-session.js";
import type { JsonFlag } from "../../options/command-definition.js";
import { exitCodes } from "../../print/exit-code.js";
import { notice } from "../../print/errors-and-notices.js";
import { print, toRecordJson } from "../../print/write-output.js";
import { printTable } from "../../print/table.js";
import { printPaged, readWholeQuestion, wholeQuestionLines } from "../../print/terminal-prompt.js";
import { answerHint } from "./form-prompt.js";
import { expiryText, type PermissionRequest, permissionSubject } from "../view/notice-texts.js";

interface ListPermissionsFlags extends JsonFlag {
  readonly session?: string;
  readonly all?: true;
}

export async function printPermissions({ session, all, json }: ListPermissionsFlags): Promise<number> {
  await using reader = await openReadClient();
  const of =
    session === undefined ? {} : { session: (await resolveAcpSession(reader.client, session)).sessionId };
  const query = { ...of, ...(all === true ? { all: "1" as const } : {}), limit: 1_000 };
  const { permissions } = await reader.client.acpPermissions({ query });
  if (json === true) print(toRecordJson(permissions, 2));
  else if (permissions.length === 0) notice("there are no permission requests", "dim");
  else {
    // Rows are not cut to the terminal's width, because permissions may be allowed from this list.
    printTable(["PERMISSION", "SESSION", "STATE", "SHOWN", "FOR"], permissions.map(permissionRow), null);
    if (permissions.some((each) => shownColumn(each) === "part"))
      print(
        "part: the row shows only a part of the request; `holdfast acp permissions show <permission>` shows all of it\n",
      );
  }
  return 0;
}

function permissionRow(permission: PermissionRequest): string[] {
  const { id } = permission;
  return [
    id,
    sessionName(permission),
    permissionState(permission),
    shownColumn(permission),
    permissionSubject(permission),
  ];
}

function shownColumn({ decision, question }: PermissionRequest): string {
  if (decision !== null) return "-";
  return question?.whole === true ? "all" : "part";
}

interface ShowPermissionFlags extends JsonFlag {
  readonly reveal?: true;
}

/** Prints the whole request; on a terminal, screen by screen. */
export async function showPermission(id: string, { reveal, json }: ShowPermissionFlags): Promise<number> {
  const client = await operatorClient(id);
  const question = await readPermissionQuestion(client, id, reveal === true);
  const { first, ...rest } = question;
  if (json === true) print(toRecordJson({ permission: first.permission, form: first.form, ...rest }, 2));
  else {
    const { permission, form } = first;
    const head = `${id}: session ${sessionName(permission)} (${permission.sessionId}), ${permissionState(permission)}`;
    const all = [
      head,
      ...(form === null
        ? [...optionLines(permission), ...wholeQuestionLines(question, "holdfast acp permissions", id)]
        : [
            ...wholeQuestionLines({ ...question, digest: null }, "holdfast acp permissions", id),
            answerHint(form, id),
          ]),
    ];
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
  if (!/^prm_[0-9a-z]{12}$/.test(id))
    throw new NotFound(`permission request ${id.slice(0, 200)}; \`holdfast acp permissions\` lists all`);
  const connection = await connectForReading();
  if (connection === null)
    throw new GatewayUnreachable(
      "no gateway is running, so the permission request cannot be shown or answered; nothing was done. Start one with `holdfast gateway start`",
    );
  return connection.client;
}

/** The name of the session, or its id if the name is not known. */
export function sessionName({ sessionKey, sessionId }: PermissionRequest): string {
  return sanitizeLine(sessionKey || sessionId);
}

/** The options that the agent offers, with the ids that `--option` takes. */
function optionLines({ options }: PermissionRequest): string[] {
  return options.map(({ optionId, name, kind }) =>
    sanitizeLine(`option ${JSON.stringify(optionId)}: ${kind.replaceAll("_", " ")}, ${JSON.stringify(name)}`),
  );
}

function permissionState(permission: PermissionRequest): string {
  const { decision } = permission;
  if (decision === null) return expiryText(permission, Date.now());
  return `${decision.verdict} (${sanitizeLine(decision.actor)})`;
}

export interface AnswerFlags extends JsonFlag {
  readonly digest?: string;
  /** The agent's option. */
  readonly option?: string;
  readonly always?: true;
  readonly for?: "session" | "agent";
  readonly pattern?: Omit<PermissionRule, "effect">;
  /** Values of the form's fields; of a list several. */
  readonly answer?: Readonly<Record<string, string | string[]>>;
}

const VERDICT_RECORDED = { allow: "allow", deny: "deny", cancel: "cancelled" } as const;

function rememberRequest({ always, for: scope, pattern, option }: AnswerFlags) {
  if (always === undefined && (scope !== undefined || pattern !== undefined))
    throw new BadInput("always", "--for and --pattern need --always; the request is not answered");
  if (always !== undefined && option !== undefined)
    throw new BadInput(
      "option",
      "give either --always, which Holdfast remembers, or --option; the request is not answered",
    );
  return always === undefined ? undefined : { scope: scope ?? ("session" as const), ...pattern };
}

/** An answer that came too late is reported: the request was answered before, or has expired. */
export async function answerPermission(
  id: string,
  verdict: "allow" | "deny" | "cancel",
  flags: AnswerFlags,
): Promise<number> {
  const { json, digest, option, answer: content } = flags;
  const remember = rememberRequest(flags);
  const client = await operatorClient(id);
  const body = { verdict, ...omitUndefined({ digest, optionId: option, remember, content }) };
  const answer = await client.acpAnswer({ params: { id }, body });
  const { permission, decided } = answer;
  const done = decided && permission.decision?.verdict === VERDICT_RECORDED[verdict];
  if (json === true) print(toRecordJson(answer));
  else if (done) {
    print(`${id}: ${verdict}\n`);
    if (remember !== undefined)
      notice("remembered: `holdfast acp permissions rules` lists it, `permissions revoke` revokes it", "dim");
  } else if (decided) print(`${id}: cancelled: the agent does not offer to allow it once\n`);
  else print(`${id}: too late, ${permissionState(permission)}\n`);
  return done ? 0 : exitCodes.incomplete;
}
