import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { commandHash, displayCommand } from "../../src/supervisor/redact.js";

/** Put together here, so that no scanner takes this file for a leak. */
const fake = (prefix: string, length = 36): string => prefix + "aB3".repeat(length).slice(0, length);
const jwt = `${fake("eyJ", 20)}.${fake("eyJ", 40)}.${fake("", 43)}`;

describe("secrets are not shown", () => {
  test.each<[readonly string[], string]>([
    [["curl", "--token=hunter2"], "curl '--token=***'"],
    [["mysql", "--password", "hunter2", "db"], "mysql --password '***' db"],
    [["tool", "--api-key", "-hunter2"], "tool --api-key '***'"],
    [["tool", "--apiKey", "hunter2"], "tool --apiKey '***'"],
    [["tool", "-password", "hunter2"], "tool -password '***'"],
    [["curl", "-u", "me:hunter2", "x"], "curl -u 'me:***' x"],
    [["curl", "-H", "Authorization: Bearer hunter2"], "curl -H 'Authorization: Bearer ***'"],
    [["curl", "-H", "authorization:hunter2"], "curl -H 'authorization:***'"],
    [["curl", "-H", "X-Api-Key: hunter2"], "curl -H 'X-Api-Key: ***'"],
    [["curl", "-H", "Cookie: a=hunter2; b=hunter2"], "curl -H 'Cookie: ***'"],
    [["git", "clone", "https://me:hunter2@host/r.git"], "git clone 'https://***@host/r.git'"],
    [["psql", "postgres://me:hun@ter2@host/db"], "psql 'postgres://***@host/db'"],
    [["curl", "https://host/?a=1&access_token=hunter2&b=2"], "curl 'https://host/?a=1&access_token=***&b=2'"],
    [["env", "AWS_SECRET_ACCESS_KEY=hunter2", "x"], "env 'AWS_SECRET_ACCESS_KEY=***' x"],
    [["env", "PGPASSWORD=hunter2 and more", "x"], "env 'PGPASSWORD=***' x"],
    [["env", "SECRET_KEY_BASE=hunter2", "x"], "env 'SECRET_KEY_BASE=***' x"],
    [["sh", "-c", "TOKEN=hunter2 tool --password hunter2 -v"], "sh -c 'TOKEN=*** tool --password *** -v'"],
    [["sh", "-c", `X_TOKEN="hun ter2" tool`], "sh -c 'X_TOKEN=*** tool'"],
    [
      ["agent", "--config", `{"env":{"API_KEY":"hunter2","A":"b"}}`],
      `agent --config '{"env":{"API_KEY":"***","A":"b"}}'`,
    ],
    [
      ["agent", "-p", "log in with password: hunter2, then go"],
      "agent -p 'log in with password: ***, then go'",
    ],
  ])("%j", (argv, shown) => {
    expect(displayCommand(argv)).toBe(shown);
    expect(displayCommand(argv)).not.toContain("hunter2");
  });

  test.each([
    fake("sk-"),
    fake("sk-ant-api03-", 60),
    fake("ghp_"),
    fake("hft_", 43),
    fake("github_pat_", 60),
    fake("glpat-", 20),
    fake("xoxb-"),
    `AKIA${"Q7".repeat(8)}`,
    fake("AIza", 35),
    fake("npm_"),
    fake("hf_", 34),
    jwt,
    `-----BEGIN RSA PRIVATE KEY-----\n${fake("MII", 60)}\n-----END RSA PRIVATE KEY-----`,
  ])("a token known by its shape, wherever it stands: %.12s…", (token) => {
    expect(displayCommand(["echo", token])).toBe("echo '***'");
    expect(displayCommand(["sh", "-c", `echo "${token}" | tool`])).not.toContain(token.slice(4, 20));
  });
});

describe("what is no secret stays readable", () => {
  test.each<[readonly string[], string]>([
    [["ssh", "-p", "2222", "host"], "ssh -p 2222 host"],
    [["llm", "--max-tokens", "100"], "llm --max-tokens 100"],
    [["tool", "--password-file", "/etc/pw"], "tool --password-file /etc/pw"],
    [["tool", "--token", "--verbose"], "tool --token --verbose"],
    [["openssl", "--key", "server.pem"], "openssl --key server.pem"],
    [["jq", ".key=1"], "jq .key=1"],
    [["env", "PATH=/bin", "MONKEY=1"], "env PATH=/bin MONKEY=1"],
    [["git", "clone", "https://host/r.git"], "git clone https://host/r.git"],
    [["scp", "a", "me@host:b"], "scp a me@host:b"],
    [["echo", "note: see below"], "echo 'note: see below'"],
    [["skopeo", "sk-short"], "skopeo sk-short"],
  ])("%j", (argv, shown) => {
    expect(displayCommand(argv)).toBe(shown);
  });
});

describe("one line that a shell would read the same", () => {
  test.each<[readonly string[], string]>([
    [["ls", "-la", "/tmp/a.b"], "ls -la /tmp/a.b"],
    [["echo", ""], "echo ''"],
    [["echo", "a b", "it's"], String.raw`echo 'a b' 'it'\''s'`],
    [["echo", "$HOME", "*", "~"], "echo '$HOME' '*' '~'"],
    [["printf", "a\nb\t\x1b[31m\\'"], String.raw`printf $'a\nb\t\e[31m\\\''`],
    [["echo", "\x00\x7f\u0085\u202e"], String.raw`echo $'\x00\x7f\u0085\u202e'`],
    [["echo", "grüße", "日本"], "echo 'grüße' '日本'"],
  ])("%j", (argv, shown) => {
    expect(displayCommand(argv)).toBe(shown);
  });

  test("whatever the words hold: bounded, one line, no control characters", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "binary", maxLength: 400 })), (argv) => {
        const shown = displayCommand(argv);
        expect(shown.length).toBeLessThanOrEqual(defaults.displayCommandChars);
        // oxlint-disable-next-line no-control-regex
        expect(shown).not.toMatch(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]/);
      }),
    );
  });

  test("a long command is cut, visibly", () => {
    const shown = displayCommand(["echo", "x".repeat(10_000)]);
    expect(shown).toHaveLength(defaults.displayCommandChars);
    expect(shown.endsWith("…")).toBe(true);
  });

  test.each([
    "a",
    "eyJ-",
    "eyJa-",
    "a=",
    "--a ",
    "http://",
    "'a':",
    "token:",
    "x@",
    "AKIA",
    `"a":"`,
    "-",
    " ",
  ])("the longest argument the kernel takes, of %j, is read in no time", (piece) => {
    const began = performance.now();
    displayCommand(["sh", "-c", piece.repeat(131_000 / piece.length)]);
    expect(performance.now() - began).toBeLessThan(1_000);
  });
});

describe("the hash of a command", () => {
  test("is the same for the same words and differs for others", () => {
    expect(commandHash(["a", "b"])).toMatch(/^[0-9a-f]{64}$/);
    expect(commandHash(["a", "b"])).toBe(commandHash(["a", "b"]));
    expect(commandHash(["a", "b"])).not.toBe(commandHash(["a b"]));
    expect(commandHash(["a", "b"])).not.toBe(commandHash(["a", "b", ""]));
  });

  test("says nothing of a secret: any secret gives the same", () => {
    expect(commandHash(["tool", "--token", "one"])).toBe(commandHash(["tool", "--token", "two"]));
  });

  test("sees the end of a command too long to show", () => {
    const long = "x".repeat(10_000);
    expect(commandHash(["echo", long, "1"])).not.toBe(commandHash(["echo", long, "2"]));
  });
});
