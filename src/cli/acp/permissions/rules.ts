import type { ResponseOf } from "../../../api/contract.js";
import { BadInput } from "../../../errors.js";
import type { PermissionRule } from "../../../model/acp/permission-rule.js";
import { omitUndefined } from "../../../model/record-type.js";
import { sanitizeLine } from "../../../text/sanitize.js";
import { assertOperator, connectOrStart } from "../../client/connect.js";
import { openReadClient } from "../../client/read-client.js";
import { resolveAcpSession } from "../../client/resolve-acp-session.js";
import type { JsonFlag } from "../../options/command-definition.js";
import { formatElapsed } from "../../../text/format-units.js";
import { exitCodes } from "../../print/exit-code.js";
import { notice } from "../../print/errors-and-notices.js";
import { print, toJson } from "../../print/write-output.js";
import { printTable } from "../../print/table.js";
import { parseRulePattern, ruleText } from "./rule-pattern.js";

type AcpRule = ResponseOf<"acpRules">["rules"][number];

interface RulesFlags extends JsonFlag {
  readonly session?: string;
  readonly agent?: string;
  readonly all?: true;
}

/** Lists the rules beside those that sessions were opened with. */
export async function printPermissionRules({ session, agent, all, json }: RulesFlags): Promise<number> {
  assertOperator("list permission rules");
  await using reader = await openReadClient();
  const of =
    session === undefined ? {} : { session: (await resolveAcpSession(reader.client, session)).sessionId };
  const query = {
    ...of,
    ...omitUndefined({ agent }),
    ...(all === true ? { all: "1" as const } : {}),
    limit: 1_000,
  };
  const { rules } = await reader.client.acpRules({ query });
  if (json === true) print(toJson(rules, 2));
  else if (rules.length === 0)
    notice("there are no permission rules; `holdfast acp show` shows those of a session", "dim");
  else printTable(["RULE", "FOR", "ADDED", "BY", "MEANING"], rules.map(ruleRow), null);
  return 0;
}

function ruleRow(rule: AcpRule): string[] {
  const { id, actor, createdAt, revokedAt, revokedBy } = rule;
  const added = createdAt === null ? "-" : `${formatElapsed(createdAt)} ago`;
  const state = revokedAt === null ? added : `revoked by ${sanitizeLine(revokedBy ?? "")}`;
  return [id, ruleTargetText(rule), state, sanitizeLine(actor), rememberedRuleText(rule)];
}

function ruleTargetText({ sessionKey, sessionId, agent }: AcpRule): string {
  if (sessionId !== null) return sanitizeLine(`session ${sessionKey ?? sessionId}`);
  return agent === null ? "every agent" : `agent ${agent}`;
}

function rememberedRuleText({ effect, kind, title, exact }: AcpRule): string {
  const parts = { ...(kind === null ? {} : { kind }), ...(title === null ? {} : { title }) };
  return sanitizeLine(ruleText({ effect, ...parts, exact }));
}

interface AddRuleFlags extends JsonFlag {
  readonly session?: string;
  readonly agent?: string;
}

const EFFECTS: ReadonlyMap<string, PermissionRule["effect"]> = new Map([
  ["allow", "allow"],
  ["deny", "reject"],
  ["ask", "ask"],
]);

/** Adds a rule to an open session or to an agent. */
export async function addPermissionRule(
  word: string,
  pattern: string,
  { session, agent, json }: AddRuleFlags,
): Promise<number> {
  assertOperator("add permission rules");
  const effect = EFFECTS.get(word);
  if (effect === undefined)
    throw new BadInput("effect", `${JSON.stringify(word)} is not allow, deny or ask; no rule was added`);
  if ((session === undefined) === (agent === undefined))
    throw new BadInput("session", "give either --session or --agent; no rule was added");
  const rule = { effect, ...parseRulePattern(pattern) };
  const { client } = await connectOrStart();
  const of = session === undefined ? {} : { session: (await resolveAcpSession(client, session)).sessionId };
  const answer = await client.acpAddRule({ body: { rule, ...of, ...omitUndefined({ agent }) } });
  if (json === true) print(toJson(answer));
  else {
    print(`${answer.rule.id}\n`);
    notice(`${ruleTargetText(answer.rule)}: ${rememberedRuleText(answer.rule)}`, "dim");
  }
  return 0;
}

/** Revokes rules. Later requests are judged without them; what was answered stays. */
export async function revokePermissionRules(ids: readonly string[], { json }: JsonFlag): Promise<number> {
  assertOperator("revoke permission rules");
  const { client } = await connectOrStart();
  let late = false;
  for (const id of ids) {
    const answer = await client.acpRevokeRule({ params: { id } });
    late ||= !answer.revoked;
    if (json === true) print(toJson(answer));
    else if (answer.revoked) print(`${id}: revoked: ${rememberedRuleText(answer.rule)}\n`);
    else print(`${id}: was revoked before, by ${sanitizeLine(answer.rule.revokedBy ?? "")}\n`);
  }
  return late ? exitCodes.incomplete : 0;
}
