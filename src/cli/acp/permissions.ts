import { constants } from "node:os";
import { GatewayUnreachable, NotFound } from "../../errors.js";
import type { GatewayClient } from "../../gateway/client.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { say } from "../complain.js";
import { exitCodes } from "../exit-code.js";
import { mustBeOperator, runningGateway } from "../gateway/connect.js";
import { openLook } from "../gateway/look.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { print } from "../runs/print.js";
import { printScreens } from "../runs/show-screens.js";
import { table } from "../runs/table.js";
import { wholeLines, wholeQuestion } from "../runs/whole-question.js";
import { expiryOf, subjectOf, type Permission } from "./permission-line.js";
import { pickSession } from "./pick-session.js";

export interface PermissionsRequest {
  readonly session: string | null;
  readonly all: boolean;
  readonly json: boolean;
}

export async function listPermissions({ session, all, json }: PermissionsRequest): Promise<number> {
  await using look = await openLook();
  const of = session === null ? {} : { session: (await pickSession(look.client, session)).sessionId };
  const query = { ...of, ...(all ? { all: "1" as const } : {}), limit: 1_000 };
  const { permissions } = await look.client.acpPermissions({ query });
  if (json) print(toJson(permissions, 2));
  else if (permissions.length === 0) say("no agent asks for anything", "dim");
  else print(`${lines(permissions, Date.now()).join("\n")}\n`);
  return 0;
}

/** Rows are not cut to the terminal's width, because permissions may be allowed from this list. */
function lines(permissions: readonly Permission[], now: number): string[] {
  const rows = permissions.map((each) => [
    each.id,
    each.sessionId,
    stateOf(each, now),
    shownOf(each),
    subjectOf(each),
  ]);
  const [head, ...rest] = table([["PERMISSION", "SESSION", "STATE", "SHOWN", "FOR"], ...rows], null);
  const hint = permissions.some((each) => shownOf(each) === "part")
    ? [
        "part: the row shows only a part of the request; `holdfast acp permissions show <permission>` shows all of it",
      ]
    : [];
  return [paletteFor(1).bold(head ?? ""), ...rest, ...hint];
}

function shownOf({ decision, question }: Permission): string {
  if (decision !== null) return "-";
  return question?.whole === true ? "all" : "part";
}

export interface ShowFlags {
  readonly reveal?: true;
  readonly json?: true;
}

/** Print the whole question; on a terminal, screen by screen. */
export async function showPermission(id: string, { reveal, json }: ShowFlags): Promise<number> {
  const client = await clientFor(id);
  const question = await readPermissionQuestion(client, id, reveal === true);
  const { first, ...rest } = question;
  if (json === true) print(toJson({ permission: first.permission, ...rest }, 2));
  else {
    const head = `${id}: session ${first.permission.sessionId}, ${stateOf(first.permission, Date.now())}`;
    const all = [head, ...wholeLines(question, "holdfast acp permissions", id)];
    if (!(await printScreens(all))) return exitCodes.signal + constants.signals.SIGINT;
  }
  return 0;
}

export function readPermissionQuestion(client: GatewayClient, id: string, reveal: boolean) {
  return wholeQuestion((page) =>
    client.acpQuestion({ params: { id }, query: { page, ...(reveal ? { reveal: "1" as const } : {}) } }),
  );
}

async function clientFor(id: string): Promise<GatewayClient> {
  mustBeOperator("answer permission requests of agents");
  if (!/^prm_[0-9a-z]{12}$/.test(id)) throw new NotFound(`permission ${id.slice(0, 200)}`);
  const connection = await runningGateway();
  if (connection === null)
    throw new GatewayUnreachable(
      "no gateway is running, so the permission request cannot be shown or answered; nothing was done",
    );
  return connection.client;
}

function stateOf(permission: Permission, now: number): string {
  const { decision } = permission;
  return decision === null
    ? expiryOf(permission, now)
    : `${decision.verdict} (${sanitizeLine(decision.actor)})`;
}

/** Said, too, when it came too late: then somebody else has decided, or nobody in time. */
export async function answerPermission(
  id: string,
  verdict: "allow" | "deny",
  { json, digest }: { readonly json?: true; readonly digest?: string },
): Promise<number> {
  const client = await clientFor(id);
  const shown = digest === undefined ? {} : { digest };
  const answer = await client.acpAnswer({ params: { id }, body: { verdict, ...shown } });
  const { permission, decided } = answer;
  const done = decided && permission.decision?.verdict === verdict;
  if (json === true) print(toJson(answer));
  else if (done) print(`${id}: ${verdict}\n`);
  else if (decided) print(`${id}: cancelled, its agent does not offer to be allowed this once\n`);
  else print(`${id}: too late, ${stateOf(permission, Date.now())}\n`);
  return done ? 0 : exitCodes.incomplete;
}
