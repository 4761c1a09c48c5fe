import { isatty } from "node:tty";
import { GatewayUnreachable, NotFound } from "../../errors.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { say } from "../complain.js";
import { exitCodes } from "../exit-code.js";
import { mustBeOperator, runningGateway } from "../gateway/connect.js";
import { openLook } from "../gateway/look.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { print } from "../runs/print.js";
import { table } from "../runs/table.js";
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
  else print(`${lines(permissions, Date.now(), isatty(1) ? process.stdout.columns : null).join("\n")}\n`);
  return 0;
}

function lines(permissions: readonly Permission[], now: number, width: number | null): string[] {
  const rows = permissions.map((each) => [each.id, each.sessionId, stateOf(each, now), subjectOf(each)]);
  const [head, ...rest] = table([["PERMISSION", "SESSION", "STATE", "FOR"], ...rows], width);
  return [paletteFor(1).bold(head ?? ""), ...rest];
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
  json: boolean,
): Promise<number> {
  mustBeOperator("answer what agents ask");
  if (!/^prm_[0-9a-z]{12}$/.test(id)) throw new NotFound(`permission ${id.slice(0, 200)}`);
  const connection = await runningGateway();
  if (connection === null)
    throw new GatewayUnreachable("no gateway is running that could answer an agent; nothing was done");
  const answer = await connection.client.acpAnswer({ params: { id }, body: { verdict } });
  const { permission, decided } = answer;
  const done = decided && permission.decision?.verdict === verdict;
  if (json) print(toJson(answer));
  else if (done) print(`${id}: ${verdict}\n`);
  else if (decided) print(`${id}: cancelled, its agent does not offer to be allowed this once\n`);
  else print(`${id}: too late, ${stateOf(permission, Date.now())}\n`);
  return done ? 0 : exitCodes.incomplete;
}
