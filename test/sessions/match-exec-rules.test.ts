import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ExecRule, execRuleSchema, execRulesSchema } from "../../src/model/exec/exec-rule.js";
import { decideExec, type ResolvedCommand } from "../../src/sessions/match-exec-rules.js";
import { scaled } from "../support/scale.js";

const at = (executable: string, argv: string[], cwd = "/"): ResolvedCommand => ({
  executable,
  file: executable,
  foundBy: "on-path",
  argv,
  cwd,
});
const git = (...args: string[]): ResolvedCommand => at("/usr/bin/git", ["git", ...args], "/srv/app");
const effect = "allow";

test.each<[Omit<ExecRule, "effect">, string[], boolean]>([
  [{}, ["push"], true],
  [{ executable: "/usr/bin/git" }, ["push"], true],
  [{ executable: "/usr/bin/gi" }, [], false],
  [{ executable: "/usr/bin/git2" }, [], false],
  [{ executable: "/usr/bin/" }, [], true],
  [{ executable: "/usr/" }, [], true],
  [{ executable: "/" }, [], true],
  [{ executable: "/usr/b/" }, [], false],
  [{ executable: "/usr/bin" }, [], false],
  [{ executable: "git" }, [], true],
  [{ executable: "it" }, [], false],
  [{ calledAs: "git" }, [], true],
  [{ calledAs: "sh" }, [], false],
  [{ cwd: "/srv" }, [], true],
  [{ cwd: "/srv/app" }, [], true],
  [{ cwd: "/" }, [], true],
  [{ cwd: "/srv/ap" }, [], false],
  [{ cwd: "/srv/app/src" }, [], false],
  [{ args: [] }, [], true],
  [{ args: [] }, ["x"], false],
  [{ args: ["status"] }, ["status"], true],
  [{ args: ["status"] }, ["status", "-s"], false],
  [{ args: ["status"] }, [], false],
  [{ args: ["stat"] }, ["status"], false],
  [{ args: ["..."] }, [], true],
  [{ args: ["..."] }, ["a", "b"], true],
  [{ args: ["log", "..."] }, ["log"], true],
  [{ args: ["log", "..."] }, ["log", "-p", "x"], true],
  [{ args: ["log", "..."] }, ["-p", "log"], false],
  [{ args: ["show", "*"] }, ["show", "HEAD"], true],
  [{ args: ["show", "*"] }, ["show"], false],
  [{ args: ["show", "*"] }, ["show", ""], true],
  [{ args: ["show", "*"] }, ["show", "a", "b"], false],
  [{ args: ["*", "x", "..."] }, ["-C", "x"], true],
  [{ args: ["add", "\\*"] }, ["add", "*"], true],
  [{ args: ["add", "\\*"] }, ["add", "x"], false],
  [{ args: ["diff", "\\..."] }, ["diff", "..."], true],
  [{ args: ["diff", "\\..."] }, ["diff", "a", "b"], false],
  [{ args: ["\\\\n"] }, ["\\n"], true],
  [{ args: ["a*"] }, ["ab"], false],
  [{ executable: "git", args: ["push"], cwd: "/home" }, ["push"], false],
])("%o on `git` with %o: %s", (parts, args, matches) => {
  const rule = execRuleSchema.parse({ effect, ...parts });
  expect(decideExec([rule], git(...args))).toEqual(
    matches ? { effect, rule: 0 } : { effect: "ask", rule: null },
  );
});

describe("several rules", () => {
  const rules: ExecRule[] = [
    { effect: "deny", executable: "git", args: ["push", "..."] },
    { effect: "ask", args: ["commit", "..."] },
    { effect: "allow", executable: "/usr/bin/" },
  ];

  test("the first matching rule decides", () => {
    expect(decideExec(rules, git("push", "-f"))).toEqual({ effect: "deny", rule: 0 });
    expect(decideExec(rules, git("commit"))).toEqual({ effect: "ask", rule: 1 });
    expect(decideExec(rules, git("status"))).toEqual({ effect: "allow", rule: 2 });
  });

  test("without a matching rule, the default effect applies", () => {
    const request = at("/tmp/x", ["x"]);
    expect(decideExec(rules, request)).toEqual({ effect: "ask", rule: null });
    expect(decideExec(rules, request, "deny")).toEqual({ effect: "deny", rule: null });
  });

  test("the file decides, not argv[0]", () => {
    const disguised = at("/tmp/evil", ["/usr/bin/git", "status"]);
    expect(decideExec([{ effect: "allow", executable: "git" }], disguised).effect).toBe("ask");
  });

  test("calledAs distinguishes the programs of a multi-call file", () => {
    const busybox: ExecRule = { effect: "allow", executable: "/bin/busybox", calledAs: "ls" };
    const call = (name: string) => ({
      ...at(`/bin/${name.slice(name.lastIndexOf("/") + 1)}`, [name]),
      file: "/bin/busybox",
    });
    expect(decideExec([busybox], call("/bin/ls")).effect).toBe("allow");
    expect(decideExec([busybox], call("sh")).effect).toBe("ask");
  });
});

describe("a program outside the operator's PATH", () => {
  const rule = (says: ExecRule["effect"], executable: string): ExecRule => ({ effect: says, executable });
  const planted = (found: ResolvedCommand["foundBy"]): ResolvedCommand => ({
    ...at("/tmp/bin/git", ["git"]),
    foundBy: found,
  });

  test.each(["allow", "ask"] as const)("does not match the name of a rule with effect %s", (says) => {
    for (const found of ["by-path", "relative"] as const)
      expect(decideExec([rule(says, "git")], planted(found)).rule).toBeNull();
  });

  test("is not allowed by a rule with only calledAs", () => {
    for (const found of ["by-path", "relative"] as const) {
      expect(decideExec([{ effect: "allow", calledAs: "git" }], planted(found)).rule).toBeNull();
      expect(decideExec([{ effect: "deny", calledAs: "git" }], planted(found)).rule).toBe(0);
    }
  });

  test("matches a rule by its path, unless it was given by a relative path", () => {
    for (const path of ["/tmp/bin/git", "/tmp/bin/", "/tmp/"]) {
      expect(decideExec([rule("allow", path)], planted("by-path")).rule).toBe(0);
      expect(decideExec([rule("allow", path)], planted("relative")).rule).toBeNull();
    }
  });

  test("is denied by its name, its path and its link target, however it was given", () => {
    const linked = (found: ResolvedCommand["foundBy"]) => ({ ...planted(found), file: "/usr/bin/curl" });
    for (const found of ["on-path", "by-path", "relative"] as const)
      for (const name of ["git", "/tmp/bin/git", "/tmp/", "curl", "/usr/bin/curl", "/usr/bin/"])
        expect([name, decideExec([rule("deny", name)], linked(found)).rule]).toEqual([name, 0]);
  });
});

test("later rules never change an earlier decision", () => {
  const word = fc.constantFrom("a", "b", "*", "...", "\\*");
  const rule = fc.record(
    {
      effect: fc.constantFrom("allow" as const, "ask" as const, "deny" as const),
      executable: fc.constantFrom("git", "/usr/bin/", "/usr/bin/git", "/opt/"),
      args: fc.array(word, { maxLength: 3 }),
    },
    { requiredKeys: ["effect"] },
  );
  fc.assert(
    fc.property(fc.array(rule), fc.array(rule), fc.array(word), (rules, more, words) => {
      const before = decideExec(rules, git(...words));
      if (before.rule !== null) expect(decideExec([...rules, ...more], git(...words))).toEqual(before);
    }),
  );
});

test("the longest rules and commands are decided fast", () => {
  const rules: ExecRule[] = Array.from({ length: 256 }, () => ({
    effect: "deny",
    args: [...Array.from({ length: 254 }, () => "*"), "b", "..."],
  }));
  const request = git(...Array.from({ length: 100_000 }, () => "a"));
  const began = performance.now();
  expect(decideExec(rules, request).rule).toBeNull();
  expect(performance.now() - began).toBeLessThan(scaled(500));
});

test.each<[string, unknown]>([
  ["no effect", {}],
  ["an unknown effect", { effect: "maybe" }],
  ["an unknown part", { effect, argv: ["x"] }],
  ["a relative path", { effect, executable: "bin/git" }],
  ["a path with ..", { effect, executable: "/usr/../bin/git" }],
  ["a doubled slash", { effect, executable: "/usr//bin/git" }],
  ["a pattern for a name", { effect, executable: "gi*" }],
  ["an empty name", { effect, executable: "" }],
  ["a NUL", { effect, executable: "/bin/a\0" }],
  ["a path for what it is called as", { effect, calledAs: "/bin/ls" }],
  ["a rest that is not last", { effect, args: ["...", "x"] }],
  ["a relative directory", { effect, cwd: "work" }],
  ["words that are none", { effect, args: [1] }],
])("refused: %s", (_, rule) => {
  expect(execRuleSchema.safeParse(rule).success).toBe(false);
  expect(execRulesSchema.safeParse([rule]).success).toBe(false);
});
