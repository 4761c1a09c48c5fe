import { expect, test } from "vitest";
import { parseRulePattern, rulesFromFlags, ruleText } from "../../../src/cli/acp/permissions/rule-pattern.js";

test.each([
  ["*", {}, "everything"],
  ["read", { kind: "read" }, "read"],
  ["execute:git *", { kind: "execute", title: "git *" }, 'execute "git *"'],
  ["execute:*", { kind: "execute" }, "execute"],
  ["*:read", { title: "read" }, '"read"'],
  ["git commit -m fix: it", { title: "git commit -m fix: it" }, '"git commit -m fix: it"'],
  ["note: *", { title: "note: *" }, '"note: *"'],
])("the pattern %j is a rule", (pattern, rule, text) => {
  expect(parseRulePattern(pattern)).toEqual(rule);
  expect(ruleText({ effect: "reject", ...rule })).toBe(`deny ${text}`);
});

test("a pattern without a title, or with one that is too long, is refused", () => {
  for (const bad of ["", "execute:", "x".repeat(1_001)])
    expect(() => parseRulePattern(bad)).toThrow("pattern");
});

test("denials come first and permissions last, in any order on the command line", () => {
  expect(rulesFromFlags({ allow: ["read"], ask: ["edit"], deny: ["execute:rm *", "fetch"] })).toEqual([
    { effect: "reject", kind: "execute", title: "rm *" },
    { effect: "reject", kind: "fetch" },
    { effect: "ask", kind: "edit" },
    { effect: "allow", kind: "read" },
  ]);
});
