import { BadInput } from "../../../errors.js";
import type { PermissionRule } from "../../../model/acp/permission-rule.js";

/** The kinds of tools that the protocol defines. */
const TOOL_KINDS = [
  ...["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"],
] as const;

/** The longest title in a rule. */
const MAX_TITLE_CHARS = 1_000;

/** Help about patterns, for the commands that take one. */
export const PATTERN_HELP = `A pattern is a kind of tool (read, edit, delete, move, search, execute, think,
fetch, switch_mode, other), a kind and a title ("execute:git *"), a title of any
kind ("git *", or "*:read"), or "*" for everything. * stands for any text.
`;

/** Parses `kind`, `kind:title`, `title` or `*`. */
export function parseRulePattern(pattern: string): Omit<PermissionRule, "effect"> {
  if (pattern === "*") return {};
  if (isKind(pattern)) return { kind: pattern };
  const colon = pattern.indexOf(":");
  const prefix = pattern.slice(0, Math.max(0, colon));
  const hasPrefix = prefix === "*" || isKind(prefix);
  const title = hasPrefix ? pattern.slice(colon + 1) : pattern;
  if (title === "" || title.length > MAX_TITLE_CHARS)
    throw new BadInput("pattern", `Write a pattern with a title of 1 to ${MAX_TITLE_CHARS} characters.`);
  return { ...(isKind(prefix) ? { kind: prefix } : {}), ...(title === "*" && hasPrefix ? {} : { title }) };
}

function isKind(word: string): boolean {
  return (TOOL_KINDS as readonly string[]).includes(word);
}

export interface RuleFlags {
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  readonly ask?: readonly string[];
}

/** The rules of `--deny`, `--ask` and `--allow`, in this order: the order on the command line has no effect. */
export function rulesFromFlags({ allow = [], deny = [], ask = [] }: RuleFlags): PermissionRule[] {
  return [
    ...deny.map((pattern): PermissionRule => ({ effect: "reject", ...parseRulePattern(pattern) })),
    ...ask.map((pattern): PermissionRule => ({ effect: "ask", ...parseRulePattern(pattern) })),
    ...allow.map((pattern): PermissionRule => ({ effect: "allow", ...parseRulePattern(pattern) })),
  ];
}

/** A rule in words; a title is quoted as in JSON. */
export function ruleText({ effect, kind, title, exact }: PermissionRule): string {
  const quoted = title === undefined ? undefined : JSON.stringify(title);
  // Only a title with a star could be taken for a pattern.
  const literal = exact === true && title?.includes("*") === true;
  const what = [kind, literal ? `exactly ${quoted ?? ""}` : quoted].filter((each) => each !== undefined);
  return `${effect === "reject" ? "deny" : effect} ${what.length === 0 ? "everything" : what.join(" ")}`;
}
