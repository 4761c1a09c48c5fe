import fc from "fast-check";
import { expect, test } from "vitest";
import {
  cleanEnvironment,
  evaluateEnvironment,
  formatVariableNames,
} from "../../src/sessions/exec-environment.js";

const own = {
  PATH: "/usr/bin",
  HOME: "/home/op",
  LANG: "C",
  JAVA_HOME: "/opt/java",
  API_TOKEN: "hush",
  DSN: "x",
};

test("a run has the listed variables of the gateway's environment, and nothing else", () => {
  const holdfast = { HOLDFAST_HOME: "/state", HOLDFAST_DATABASE_URL: "hush", HOLDFAST_TOKEN: "hush" };
  expect(cleanEnvironment(["DSN"], { ...own, ...holdfast })).toEqual({
    PATH: "/usr/bin",
    HOME: "/home/op",
    LANG: "C",
    DSN: "x",
    HOLDFAST_HOME: "/state",
  });
});

test.each<[string, string, boolean]>([
  ["LANG", "de_DE.UTF-8@euro", true],
  ["LANG", "../../tmp/evil", false],
  ["LANGUAGE", "de:en", true],
  ["LANGUAGE", "/tmp/evil", false],
  ["LC_ALL", "C.UTF-8", true],
  ["LC_ALL", "/tmp/locale", false],
  ["LC_TIME", "", true],
  ["LCX", "C", false],
  ["TZ", "Europe/Berlin", true],
  ["TZ", "CET-1CEST,M3.5.0,M10.5.0/3", true],
  ["TZ", "<+03>-3", true],
  ["TZ", "/tmp/zone", false],
  ["TZ", ":/tmp/zone", false],
  ["TZ", "Europe/../../../tmp/zone", false],
  ["TERM", "xterm-256color", true],
  ["TERM", "../x", false],
  ["COLUMNS", "80", true],
  ["COLUMNS", "80; id", false],
  ["NO_COLOR", "1", true],
  ["NO_COLOR", "$(id)", false],
  ["HOME", "/tmp", false],
  ["PATH", "/tmp", false],
  ["SHELL", "/tmp/sh", false],
  ["TMPDIR", "/tmp/x", false],
  ["JAVA_HOME", "/opt/java", true],
  ["JAVA_HOME", "/tmp/java", false],
  // The result would reveal whether the guess is right.
  ["API_TOKEN", "hush", false],
  ["HOLDFAST_ANCHOR", "/tmp/evil", false],
  ["LISTED", "anything; at all", true],
  ["__proto__", "x", false],
])("%s=%s set for a command passes: %s", (name, value, passes) => {
  const set = Object.fromEntries([[name, value]]);
  const { unlisted } = evaluateEnvironment({ base: cleanEnvironment([], own), set, pass: ["LISTED"] }, own);
  expect(unlisted).toEqual(passes ? [] : [name]);
});

test("a command without unlisted variables has only listed variables or the gateway's own", () => {
  const name = fc.constantFrom(
    "LANG",
    "PATH",
    "TZ",
    "GIT_DIR",
    "JAVA_HOME",
    "LISTED",
    "PWD",
    "HOLDFAST_HOME",
    "LC_ALL",
  );
  const value = fc.constantFrom("C", "/usr/bin", "/opt/java", "/tmp", "../x", "");
  const variables = fc.dictionary(name, value);
  const base = cleanEnvironment([], own);
  const listed = new Set(["LANG", "TZ", "LISTED", "LC_ALL"]);
  fc.assert(
    fc.property(variables, variables, (inherited, set) => {
      const { environment, unlisted } = evaluateEnvironment({ base, inherited, set, pass: ["LISTED"] }, own);
      for (const [variable, given] of Object.entries(environment)) {
        if (unlisted.includes(variable) || listed.has(variable)) continue;
        expect([variable, given]).toEqual([variable, (own as Record<string, string>)[variable]]);
      }
      // Nothing that the gateway gives is lost.
      for (const variable of Object.keys(base)) expect(environment).toHaveProperty(variable);
    }),
  );
});

test("names in a message are few, short and harmless", () => {
  expect(formatVariableNames(["A", "B_1"])).toBe("A, B_1");
  expect(formatVariableNames(["\u001B[2J", "a b", "ü"])).toBe(String.raw`"\u001b[2J", "a b", "?"`);
  const many = formatVariableNames(Array.from({ length: 1_000 }, (_, at) => `${"X".repeat(1_000)}${at}`));
  expect(many.length).toBeLessThan(2_000);
  expect(many).toMatch(/ and 980 more$/);
});
