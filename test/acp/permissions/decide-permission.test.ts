import type { ToolKind } from "@agentclientprotocol/sdk";
import fc from "fast-check";
import { expect, test } from "vitest";
import { decidePermission, selectOption } from "../../../src/acp/permissions/decide-permission.js";
import {
  parsePermissionRequest,
  type ToolCallInfo,
} from "../../../src/acp/permissions/parse-permission-request.js";
import {
  type MatchedRule,
  ruleFromAnswer,
  toPermissionRule,
} from "../../../src/acp/permissions/remembered-rules.js";
import { defaults } from "../../../src/defaults.js";
import type { PermissionOption } from "../../../src/model/acp/permission-request.js";
import type { PermissionRule, RememberedRule } from "../../../src/model/acp/permission-rule.js";
import { scaled } from "../../support/scale.js";
import { newRememberedRule } from "../../support/store/session-samples.js";

const KINDS: ToolKind[] = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"];
const kind = fc.constantFrom(...KINDS);
const title = fc.string({ unit: fc.constantFrom("a", "b", "*", " ") });
const rule: fc.Arbitrary<PermissionRule> = fc.record(
  { effect: fc.constantFrom("allow" as const, "reject" as const, "ask" as const), kind, title },
  { requiredKeys: ["effect"] },
);
const option: fc.Arbitrary<PermissionOption> = fc.record({
  optionId: fc.string(),
  name: fc.string(),
  kind: fc.constantFrom("allow_once", "allow_always", "reject_once", "reject_always"),
});
const tool = fc.record({ kind: fc.option(kind), title: fc.option(title), inputDigest: fc.constant(null) });

const titled = (text: string): ToolCallInfo => ({ kind: null, title: text, inputDigest: null });

test("an answer is an offered option of the decided kind, for one time", () => {
  fc.assert(
    fc.property(fc.array(rule), tool, fc.array(option), (rules, asked, options) => {
      const decision = decidePermission(rules, asked, options);
      if (decision.type === "ask") {
        expect(rules[decision.rule]?.effect).toBe("ask");
        return;
      }
      const allowed = decision.rule !== null && rules[decision.rule]?.effect === "allow";
      const wanted = allowed ? "allow_once" : "reject_once";
      const first = options.find((each) => each.kind === wanted);
      expect(decision.outcome).toEqual(
        first === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId: first.optionId },
      );
    }),
  );
});

test("nothing is allowed that no rule allows", () => {
  fc.assert(
    fc.property(fc.array(rule), tool, fc.array(option), (rules, asked, options) => {
      const strict = rules.filter(({ effect }) => effect !== "allow");
      const decision = decidePermission(strict, asked, options);
      const answer = decision.type === "answer" ? decision.outcome : null;
      const chosen = answer?.outcome === "selected" ? answer.optionId : null;
      if (chosen !== null)
        expect(
          options.find(({ optionId, kind: of }) => optionId === chosen && of === "reject_once"),
        ).toBeDefined();
    }),
  );
});

test("rules after the deciding rule have no effect", () => {
  fc.assert(
    fc.property(fc.array(rule), fc.array(rule), tool, (rules, more, asked) => {
      const decision = decidePermission(rules, asked, []);
      fc.pre(decision.rule !== null);
      expect(decidePermission([...rules, ...more], asked, [])).toEqual(decision);
    }),
  );
});

test("a title pattern matches like the equivalent regular expression", () => {
  fc.assert(
    fc.property(title, title, (pattern, text) => {
      const like = new RegExp(
        `^${pattern
          .split("*")
          .map((part) => part.replaceAll(/[^ab ]/g, "\\$&"))
          .join("[\\s\\S]*")}$`,
      );
      const { rule: at } = decidePermission([{ effect: "allow", title: pattern }], titled(text), []) as {
        rule: number | null;
      };
      expect(at === 0).toBe(like.test(text));
    }),
  );
});

test("a hostile title and pattern are matched in bounded time", () => {
  const began = performance.now();
  decidePermission([{ effect: "allow", title: `${"*a".repeat(2_000)}b` }], titled("a".repeat(1_000_000)), []);
  expect(performance.now() - began).toBeLessThan(scaled(5_000));
});

test("the maximal number of hostile rules on the longest title is matched in bounded time", () => {
  const half = "a".repeat(499);
  const rules = Array.from(
    { length: 1_000 },
    () => ({ effect: "allow", title: `*${half}b${half}*` }) as const,
  );
  const began = performance.now();
  const asked = titled("a".repeat(defaults.acpAskedChars));
  expect(decidePermission(rules, asked, [])).toMatchObject({ rule: null });
  expect(performance.now() - began).toBeLessThan(scaled(2_000));
});

test("a title that is too long to be matched is never allowed by a rule on titles", () => {
  const asked = { ...titled(`ls ${"x".repeat(defaults.acpAskedChars)} rm`), kind: "execute" };
  const ruleFor = (...rules: PermissionRule[]) => decidePermission(rules, asked, []).rule;
  expect(ruleFor({ effect: "allow", title: "ls *" })).toBeNull();
  expect(ruleFor({ effect: "reject", title: "*rm" }, { effect: "allow" })).toBe(0);
  expect(ruleFor({ effect: "allow", title: "*" }, { effect: "ask", title: "rm*" }, { effect: "allow" })).toBe(
    1,
  );
  expect(ruleFor({ effect: "reject", kind: "read", title: "*" }, { effect: "allow" })).toBe(1);
});

test("a rule on an unknown kind or title does not match", () => {
  const unknown = { kind: null, title: null, inputDigest: null };
  for (const part of [{ kind: "read" as const }, { title: "*" }])
    expect(decidePermission([{ effect: "allow", ...part }], unknown, [])).toMatchObject({
      type: "answer",
      rule: null,
    });
});

test("the first of two options of one kind is chosen", () => {
  const options = ["one", "two"].map((optionId) => ({ optionId, name: "", kind: "allow_once" as const }));
  expect(selectOption(options, true)).toEqual({ outcome: "selected", optionId: "one" });
  expect(selectOption(options, false)).toEqual({ outcome: "cancelled" });
});

test("a permission request is parsed and bounded, and an invalid one is refused", () => {
  const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }];
  const toolCall = { toolCallId: "t", title: "ls", kind: "execute" };
  expect(parsePermissionRequest({ sessionId: "s", toolCall, options })).toEqual({
    details: [],
    inputDigest: null,
    toolCallId: "t",
    title: "ls",
    kind: "execute",
    options,
  });
  // A request may omit known fields and offer unknown kinds.
  const odd = [{ optionId: "x", name: 5, kind: "allow_forever" }, { kind: "allow_once" }, "no"];
  expect(
    parsePermissionRequest({ sessionId: "s", toolCall: { toolCallId: "t" }, options: odd }),
  ).toMatchObject({
    title: null,
    kind: null,
    options: [{ optionId: "x", name: "", kind: "allow_forever" }],
  });
  const endless = "z".repeat(1_000_000);
  const flood = Array.from({ length: 10_000 }, (_, at) => ({
    optionId: `${at}`,
    name: endless,
    kind: endless,
  }));
  const read = parsePermissionRequest({
    sessionId: "s",
    toolCall: { toolCallId: endless, kind: endless },
    options: [{ optionId: endless, kind: "allow_once" }, ...flood],
  });
  expect(read?.options[0]?.optionId).toBe("0");
  expect(JSON.stringify(read).length).toBeLessThan(100_000);
  for (const wrong of [null, [], {}, { sessionId: "s" }, { sessionId: "s", toolCall, options: {} }])
    expect(parsePermissionRequest(wrong)).toBeNull();
});

test("all details of a tool call are part of the question", () => {
  const toolCall = {
    toolCallId: "1",
    title: "Run a command",
    rawInput: { command: ["bash", "-lc", "echo Cookie: a; id > /tmp/x"], timeout: 1, "odd\nname": "" },
    content: [{ type: "diff", path: "/a", newText: "b" }],
    locations: [],
  };
  const asked = parsePermissionRequest({ sessionId: "s", toolCall, options: [] });
  expect(asked?.details).toEqual([
    ["input.command[0]", "bash"],
    ["input.command[1]", "-lc"],
    ["input.command[2]", "echo Cookie: a; id > /tmp/x"],
    ["input.timeout (JSON)", "1"],
    [String.raw`input.$'odd\nname'`, ""],
    ["content[0].type", "diff"],
    ["content[0].path", "/a"],
    ["content[0].newText", "b"],
  ]);
});

test("an exact title is compared character by character, whatever its length", () => {
  const exact = (pattern: string, text: string) =>
    decidePermission([{ effect: "allow", title: pattern, exact: true }], titled(text), []).rule;
  expect(exact("rm *", "rm *")).toBe(0);
  expect(exact("rm *", "rm -rf /")).toBeNull();
  const long = "x".repeat(defaults.acpAskedChars + 1);
  expect(exact(long, long)).toBe(0);
});

const stored = (more: Partial<RememberedRule>): MatchedRule =>
  toPermissionRule(newRememberedRule({ title: "as asked", permissionId: "prm_1", ...more }));
const DIGESTS = [null, "one", "other"];
/** The digests of the requests with this title that a rule decides. */
const decided = (one: MatchedRule) =>
  DIGESTS.filter(
    (inputDigest) =>
      decidePermission([one], { kind: "execute", title: "as asked", inputDigest }, []).rule === 0,
  );

test("an answer decides only requests that execute the same, and one without input denies all others", () => {
  expect(decided(stored({ inputDigest: "one" }))).toEqual(["one"]);
  expect(decided(stored({ inputDigest: "one", effect: "reject" }))).toEqual(["one"]);
  // Also those that were stored before digests were.
  expect(decided(stored({ inputDigest: null }))).toEqual([null]);
  expect(decided(stored({ inputDigest: null, effect: "reject" }))).toEqual(DIGESTS);
});

test("a rule that an operator writes decides by kind and title alone", () => {
  expect(decided(stored({ permissionId: null }))).toEqual(DIGESTS);
  expect(decided(stored({ exact: false }))).toEqual(DIGESTS);
  expect(decided({ effect: "allow", title: "as asked", exact: true })).toEqual(DIGESTS);
});

test("a remembered answer has the digest of the answered request, unless a pattern is given", () => {
  const asked = { id: "prm_1", kind: "execute", title: "as asked", inputDigest: "one" };
  const remembered = (pattern?: string) =>
    ruleFromAnswer(
      asked,
      "allow",
      { scope: "session", title: pattern },
      { sessionId: "ses_1", agent: null },
      { actor: "ada", at: 1 },
    );
  expect(remembered()).toMatchObject({ exact: true, inputDigest: "one" });
  expect(remembered("as *")).toMatchObject({ exact: false, inputDigest: null });
});
