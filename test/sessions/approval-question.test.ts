import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type CommandToApprove,
  diffEnvironment,
  NO_STDIN,
  questionAboutCommand,
  questionAboutText,
  type QuestionPart,
} from "../../src/sessions/approval-question.js";
import { questionLines } from "../../src/sessions/paginate-question.js";
import { repetitions, scaled } from "../support/scale.js";

const plain: CommandToApprove = {
  executable: "/usr/bin/true",
  argv: ["true"],
  cwd: "/work",
  env: { set: {}, unset: [], unlisted: [] },
  stdin: NO_STDIN,
};
const textOf = (command: Partial<CommandToApprove>, reveal = false): string =>
  questionLines(questionAboutCommand({ ...plain, ...command }).parts({ reveal })).join("\n");
/** Concatenated, so that no scanner takes this file for a leak. */
const fake = (prefix: string, length = 36): string => prefix + "aB3".repeat(length).slice(0, length);

/** Texts that redaction and quoting treat specially, or that could hide or act. */
const pieces = fc.constantFrom(
  ..."Cookie: |authorization: Bearer |-----BEGIN PRIVATE KEY-----|-----END PRIVATE KEY-----|--password|--token=|PASSWORD=|https://u:|@host/|; id > /tmp/x|$(id)|`id`|'|\"|\\|\n|\r|\t|\0|\u001b[2K|\u202e|\u200b|\u00a0|\u3164|«|»|«secret: 7 characters, #|hunter2|reboot|mysql|-p|-a|sig=|\u0430bc|аbc| |…|$'|\\n".split(
    "|",
  ),
  fake("ghp_"),
  fake("hft_", 43),
  "|",
  "\ud800",
);
const word = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.string({ unit: "binary", maxLength: 8 }),
  fc.array(pieces, { maxLength: 5 }).map((parts) => parts.join("")),
);
const name = word.map((text) => text.replaceAll(/[=\0]/g, "_") || "N");
const command: fc.Arbitrary<CommandToApprove> = fc.record({
  executable: word,
  argv: fc.array(word, { minLength: 1, maxLength: 5 }),
  cwd: word,
  env: fc.record({
    set: fc.dictionary(name, word, { maxKeys: 3 }),
    unset: fc.uniqueArray(name, { maxLength: 3 }),
    unlisted: fc.constant([]),
  }),
  stdin: fc.oneof(
    fc.constantFrom({ kind: "none" as const }, { kind: "pipe" as const }, { kind: "terminal" as const }),
    fc.record({ kind: fc.constant("text" as const), text: word }),
  ),
});

/** The literal parts of a quoted text, and the length of each mask. Independent of the code under test. */
function unquote(shown: string): (string | number)[] {
  if (!/^\$?'/.test(shown)) return [shown];
  const escaped = shown.startsWith("$");
  const body = shown.slice(escaped ? 2 : 1, -1);
  const result: (string | number)[] = [""];
  const add = (text: string): void => void (result[result.length - 1] += text as never);
  const token = !escaped
    ? /«secret: (\d+) characters, #[0-9a-f]{12}»|'\\''|[^]/gu
    : /«secret: (\d+) characters, #[0-9a-f]{12}»|\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))|[^]/gu;
  const letters = { a: "\x07", b: "\b", t: "\t", n: "\n", v: "\v", f: "\f", r: "\r", e: "\x1b" };
  const short: Record<string, string> = letters;
  for (const [all, length, x, u, U, other] of body.matchAll(token)) {
    const code = x ?? u ?? U;
    if (length !== undefined) result.push(Number(length), "");
    else if (!escaped) add(all === String.raw`'\''` ? "'" : all);
    else if (code !== undefined) add(String.fromCodePoint(Number.parseInt(code, 16)));
    else add(other === undefined ? all : (short[other] ?? other));
  }
  return result;
}

/** Asserts that the shown text is the real one except for masks, and that no mask covers shell syntax. */
function mustShow(shown: string, real: string): void {
  let at = 0;
  for (const piece of unquote(shown)) {
    const stretch = typeof piece === "number" ? real.slice(at, at + piece) : piece;
    if (typeof piece === "number") expect(stretch).toMatch(/^[\w.+/=:@%,~-]+$/);
    expect(real.slice(at, at + stretch.length)).toBe(stretch);
    at += stretch.length;
  }
  expect(at).toBe(real.length);
}

function joined(parts: Iterable<QuestionPart>): Map<string, string> {
  const texts = new Map<string, string>();
  for (const { label, text } of parts) texts.set(label, (texts.get(label) ?? "") + text);
  return texts;
}

describe("a question", () => {
  test.each([
    "echo Cookie: a; id > /tmp/x",
    "echo authorization: Basic b && id > /tmp/x",
    "echo authorization:$(id > /tmp/x)",
    'echo "-----BEGIN PRIVATE KEY-----"; id > /tmp/x',
    "password='a'; id > /tmp/x; echo 'b'",
    "curl --token `id > /tmp/x`",
    "curl https://user:$(id > /tmp/x)@host/",
    "TOKEN=reboot; $TOKEN # id > /tmp/x",
    `${"x".repeat(10_000)}; id > /tmp/x`,
  ])("shows the code behind what looks like a secret: %.40s", (script) => {
    expect(textOf({ argv: ["sh", "-c", script] })).toContain("id > /tmp/x");
    if (script.includes("reboot")) expect(textOf({ argv: ["sh", "-c", script] })).toContain("TOKEN=reboot");
  });

  test("shows each word, the directory, the variables and the input on lines of their own", () => {
    const text = textOf({
      argv: ["sh", "-c", "echo a b\nid\n", ""],
      cwd: "/srv/it's",
      env: { set: { A: "1 2", "B\n": "x" }, unset: ["HOME"], unlisted: ["A"] },
      stdin: { kind: "text", text: "rm -rf x\n" },
    });
    expect(text.split("\n")).toEqual([
      "program: /usr/bin/true",
      "argv[0]: sh",
      "argv[1]: -c",
      String.raw`argv[2]: $'echo a b\n`,
      String.raw`    id\n`,
      "    '",
      "argv[3]: ''",
      String.raw`cwd: '/srv/it'\''s'`,
      "env A: '1 2' (not in the session's list of allowed variables)",
      String.raw`env $'B\n': x`,
      "unset HOME: ",
      String.raw`stdin: $'rm -rf x\n`,
      "    ' (9 bytes, then end of input)",
    ]);
  });

  test.each([
    [
      "a\u001b[2Kb\u202ec\u200bd\u00a0e\u3164f\u2800g",
      String.raw`$'a\e[2Kb\u202ec\u200bd\u00a0e\u3164f\u2800g'`,
    ],
    ["с\u0075rl", String.raw`$'\u0441url'`],
    ["привет", "'привет'"],
    [
      "a\u037e b\u2215c \u2010d e\u0301 \u00e9 \uff06",
      String.raw`$'a\u037e b\u2215c \u2010d e\u0301 é \uff06'`,
    ],
  ])("shows control characters, invisible ones and look-alikes as escapes: %j", (text, shown) => {
    expect(textOf({ argv: ["echo", text] })).toContain(`argv[1]: ${shown}\n`);
  });

  test("never has the same text as the question about another command", () => {
    fc.assert(
      fc.property(command, command, (one, other) => {
        const same = JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
        expect(textOf(one) === textOf(other)).toBe(same);
        expect(questionAboutCommand(one).digest === questionAboutCommand(other).digest).toBe(same);
      }),
      { numRuns: repetitions(200, 2000) },
    );
  });

  test("differs if one word or one character of the command differs", () => {
    fc.assert(
      fc.property(command, fc.nat(), word, fc.nat(), (one, at, other, split) => {
        const index = at % one.argv.length;
        const old = one.argv[index] ?? "";
        const cut = split % (old.length + 1);
        const inserted = old.slice(0, cut) + other.slice(0, 1) + old.slice(cut);
        for (const changed of [other, inserted]) {
          const argv = one.argv.map((each, place) => (place === index ? changed : each));
          expect(textOf({ ...one, argv }) === textOf(one)).toBe(changed === old);
        }
        expect(textOf({ ...one, argv: [one.argv.join(" ")] }) === textOf(one)).toBe(one.argv.length === 1);
      }),
      { numRuns: repetitions(200, 2000) },
    );
  });

  test("leaves nothing out: masks cover single words, everything else is there", () => {
    fc.assert(
      fc.property(command, (asked) => {
        const parts = joined(questionAboutCommand(asked).parts());
        asked.argv.forEach((real, at) => mustShow(parts.get(`argv[${at}]`) ?? "", real));
        mustShow(parts.get("program") ?? "", asked.executable);
        mustShow(parts.get("cwd") ?? "", asked.cwd);
        if (asked.stdin.kind === "text") mustShow(parts.get("stdin") ?? "", asked.stdin.text);
        const values = [...parts].filter(([label]) => label.startsWith("env ")).map(([, text]) => text);
        Object.values(asked.env.set).forEach((real, at) => mustShow(values[at] ?? "", real));
        expect([...parts.keys()].filter((label) => label.startsWith("unset "))).toHaveLength(
          asked.env.unset.length,
        );
        const revealed = joined(questionAboutCommand(asked).parts({ reveal: true }));
        asked.argv.forEach((real, at) => expect(unquote(revealed.get(`argv[${at}]`) ?? "")).toEqual([real]));
        // oxlint-disable-next-line no-control-regex
        expect(textOf(asked)).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]/);
      }),
      { numRuns: repetitions(200, 2000) },
    );
  });

  test.each<[readonly string[], string]>([
    [["curl", "--token=hunter2"], "hunter2"],
    [["curl", "--token", "hunter2"], "hunter2"],
    [["curl", "-H", "Authorization: Bearer hunter2; id"], "hunter2"],
    [["curl", "https://me:swordfish@host/"], "swordfish"],
    [["sh", "-c", "PGPASSWORD=hunter2 psql; id"], "hunter2"],
    [["mysql", "-phunter2", "db"], "hunter2"],
    [["redis-cli", "-a", "hunter2"], "hunter2"],
    [["sh", "-c", `echo ${fake("ghp_")}; id`], fake("ghp_")],
    [["curl", `https://api.telegram.org/bot123456789:${fake("AA", 33)}/getMe`], fake("AA", 33)],
  ])("masks a secret inside one word, and tells two secrets apart: %j", (argv, secret) => {
    const text = textOf({ argv });
    expect(text).not.toContain(secret);
    expect(text).toMatch(/«secret: \d+ characters, #[0-9a-f]{12}»/);
    expect(textOf({ argv }, true)).toContain(secret);
    if (argv.join(" ").includes("; id")) expect(text).toContain("; id");
    const other = argv.map((each) => each.replace(secret, `${secret.slice(0, -1)}9`));
    expect(textOf({ argv: other })).not.toBe(text);
  });

  test("masks no path, whatever it looks like", () => {
    const path = `/tmp/${fake("sk-")}`;
    const shown = textOf({
      executable: path,
      argv: [path, "-c", `. ${path}; . ~/${fake("ghp_")}`],
      cwd: path,
    });
    expect(shown).not.toContain("«");
    for (const script of [
      "sig=/tmp/x/y/z/program/to/run; $sig",
      "TOKEN=/tmp/A1/some/long/path/of/a/program; $TOKEN",
      "PASSWORD=~/Run1/aaaaaaaaaaaaaaaa; $PASSWORD",
    ])
      expect(textOf({ argv: ["sh", "-c", script] })).toContain(script);
    const url = `https://host/v1/${fake("ghp_")}?sv=1&sig=${fake("")}`;
    expect(textOf({ argv: ["curl", url] })).not.toContain("aB3");
  });

  test("masks the value of a variable by its name", () => {
    const env = { set: { API_TOKEN: "hunter2", PATH: "/evil/bin:/bin" }, unset: [], unlisted: [] };
    expect(textOf({ env })).toContain("env API_TOKEN: '«secret: 7 characters");
    expect(textOf({ env })).toContain("env PATH: /evil/bin:/bin");
  });

  test("is whole in one line only without variables and input", () => {
    expect(questionAboutCommand(plain)).toMatchObject({ summary: "true", whole: true });
    const changes: Partial<CommandToApprove>[] = [
      { stdin: { kind: "pipe" } },
      { env: { ...plain.env, set: { A: "" } } },
      { env: { ...plain.env, unset: ["A"] } },
      { argv: ["echo", "x".repeat(500)] },
    ];
    for (const change of changes) expect(questionAboutCommand({ ...plain, ...change }).whole).toBe(false);
    expect(questionAboutText(["title", "Edit a"], [])).toMatchObject({ whole: true, summary: "Edit a" });
    expect(questionAboutText(["title", "Edit a"], [["input", "{}"]]).whole).toBe(false);
    expect(questionAboutText(["title", "Edit \u202ea"], [])).toMatchObject({
      whole: false,
      summary: String.raw`$'Edit \u202ea'`,
    });
  });

  test.each(["a", "eyJ-", "a=", "--a ", "http://", "token:", "x@", "--token ", "mysql -p", "'", "bearer "])(
    "of a megabyte of %j is made quickly",
    (piece) => {
      const began = performance.now();
      const question = questionAboutCommand({
        ...plain,
        argv: ["sh", "-c", piece.repeat(1_000_000 / piece.length)],
      });
      expect([...question.parts()].length).toBeGreaterThan(1);
      expect(performance.now() - began).toBeLessThan(scaled(3_000));
    },
  );
});

test("the difference of environments has what is added, changed and removed, and not what Holdfast sets", () => {
  const base = { A: "1", B: "2", C: "3", HOLDFAST_RUN_ID: "r" };
  expect(diffEnvironment({ A: "1", B: "x", D: "4", HOLDFAST_TOKEN: "t", __proto__x: "5" }, base)).toEqual({
    set: { B: "x", D: "4", __proto__x: "5" },
    unset: ["C"],
    unlisted: [],
  });
});

function sorted(asked: CommandToApprove): unknown {
  const { env, ...rest } = asked;
  return [rest.executable, rest.argv, rest.cwd, Object.entries(env.set), env.unset, rest.stdin];
}
