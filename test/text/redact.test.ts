import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { commandHash, displayCommand, redactText } from "../../src/text/redact.js";
import { scaled } from "../support/scale.js";

/** Built here, so that no secret scanner reports this file. */
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
    [["mysql", "-u", "me", "-phunter2", "db"], "mysql -u me '-p***' db"],
    [["sudo", "/usr/bin/mysqldump", "-phunter2"], "sudo /usr/bin/mysqldump '-p***'"],
    [
      ["docker", "exec", "db", "redis-cli", "-a", "hunter2", "ping"],
      "docker exec db redis-cli -a '***' ping",
    ],
    [["sshpass", "-p", "hunter2", "ssh", "-p", "22", "host"], "sshpass -p '***' ssh -p 22 host"],
    [["sshpass", "-phunter2", "ssh", "host"], "sshpass '-p***' ssh host"],
    [["docker", "login", "-u", "me", "-p", "hunter2", "host"], "docker login -u me -p '***' host"],
    [["mongosh", "-u", "me", "-p", "hunter2"], "mongosh -u me -p '***'"],
    [["zip", "-P", "hunter2", "a.zip", "a"], "zip -P '***' a.zip a"],
    [["7z", "x", "-phunter2", "a.7z"], "7z x '-p***' a.7z"],
    [["openssl", "enc", "-aes-256-cbc", "-k", "hunter2"], "openssl enc -aes-256-cbc -k '***'"],
    [["sh", "-c", "ls -p x | mysql -phunter2 db; ls -a y"], "sh -c 'ls -p x | mysql -p*** db; ls -a y'"],
    [["sh", "-c", "redis-cli -a 'hunter2 and more' ping"], "sh -c 'redis-cli -a *** ping'"],
    [
      ["curl", "https://x.blob.core.windows.net/c?sv=2022&sig=hunter2hunter2hunter2%3D&se=1"],
      "curl 'https://x.blob.core.windows.net/c?sv=2022&sig=***&se=1'",
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
    fake("hfo_", 43),
    `123456789:${fake("AA", 33)}`,
    fake("github_pat_", 60),
    fake("glpat-", 20),
    fake("xoxb-"),
    `AKIA${"Q7".repeat(8)}`,
    fake("AIza", 35),
    fake("npm_"),
    fake("hf_", 34),
    jwt,
    `-----BEGIN RSA PRIVATE KEY-----\n${fake("MII", 60)}\n-----END RSA PRIVATE KEY-----`,
  ])("a token with a known format is hidden in any position: %.12s…", (token) => {
    expect(displayCommand(["echo", token])).toBe("echo '***'");
    expect(displayCommand(["sh", "-c", `echo "${token}" | tool`])).not.toContain(token.slice(4, 20));
    expect(redactText(`it said ${token}`)).toBe("it said ***");
  });
});

describe("the secret part of a URL", () => {
  test.each<[string, string]>([
    [
      `https://api.telegram.org/bot123456789:${fake("AA", 33)}/sendMessage`,
      "https://api.telegram.org/bot***/sendMessage",
    ],
    [`https://hooks.slack.com/services/T0AB/B0CD/${fake("", 24)}`, "https://hooks.slack.com/services/***"],
    [
      `https://hooks.slack.com/workflows/T0AB/A0CD/1/${fake("", 24)}`,
      "https://hooks.slack.com/workflows/***",
    ],
    [
      `https://discord.com/api/webhooks/123456789012345678/${fake("", 68)}`,
      "https://discord.com/api/webhooks/123456789012345678/***",
    ],
    [
      `https://ptb.discordapp.com/api/v10/webhooks/123456/${fake("", 68)}?wait=true`,
      "https://ptb.discordapp.com/api/v10/webhooks/123456/***?wait=true",
    ],
  ])("is hidden: %.40s…", (url, shown) => {
    expect(redactText(url)).toBe(shown);
    expect(redactText(`posting to "${url}" failed`)).toBe(`posting to "${shown}" failed`);
  });

  test.each([
    "https://api.telegram.org/file/README",
    "https://hooks.slack.com/services/",
    "https://discord.com/api/webhooks/123456789012345678",
    "https://discord.com/channels/1234567890/1234567890",
    "https://slack.com/services/T0AB/B0CD",
    "at 12:34 port 8080:80",
    "10.0.0.1:12345678",
    "kill sig=TERM",
    "design=0123456789abcdef0123",
    "config.sig=x",
    "hfo_short",
  ])("is not searched in %j", (text) => {
    expect(redactText(text)).toBe(text);
  });
});

describe("text that is not a secret stays readable", () => {
  test.each<[readonly string[], string]>([
    [["mkdir", "-p", "directory"], "mkdir -p directory"],
    [["ls", "-a", "directory"], "ls -a directory"],
    [["curl", "-k", "https://host/"], "curl -k https://host/"],
    [["cp", "-p", "a", "b"], "cp -p a b"],
    [["mysql", "-p", "database"], "mysql -p database"],
    [["mysql", "-P", "3307", "--port=3307"], "mysql -P 3307 --port=3307"],
    [["docker", "run", "-p", "8080:80", "image"], "docker run -p 8080:80 image"],
    [["redis-cli", "-p", "6380", "ping"], "redis-cli -p 6380 ping"],
    [["openssl", "req", "-key", "server.pem"], "openssl req -key server.pem"],
    [["git", "commit", "-a", "-m", "mysql fix"], "git commit -a -m 'mysql fix'"],
    [["tar", "-k", "-p", "-a", "-cf", "x.tar"], "tar -k -p -a -cf x.tar"],
    [["sh", "-c", "mkdir -p a && ls -a b && ssh -p 22 c"], "sh -c 'mkdir -p a && ls -a b && ssh -p 22 c'"],
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

describe("one line that a shell reads as the same words", () => {
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

  test("any words become one line of limited length without control characters", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "binary", maxLength: 400 })), (argv) => {
        const shown = displayCommand(argv);
        expect(shown.length).toBeLessThanOrEqual(defaults.displayCommandChars);
        // oxlint-disable-next-line no-control-regex
        expect(shown).not.toMatch(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]/);
      }),
    );
  });

  test("a long command is visibly truncated", () => {
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
  ])("the longest argument of the kernel, made of %j, is redacted quickly", (piece) => {
    const began = performance.now();
    displayCommand(["sh", "-c", piece.repeat(131_000 / piece.length)]);
    expect(performance.now() - began).toBeLessThan(scaled(1_000));
  });
});

describe("the hash of a command", () => {
  test("is the same for the same words and differs for others", () => {
    expect(commandHash(["a", "b"])).toMatch(/^[0-9a-f]{64}$/);
    expect(commandHash(["a", "b"])).toBe(commandHash(["a", "b"]));
    expect(commandHash(["a", "b"])).not.toBe(commandHash(["a b"]));
    expect(commandHash(["a", "b"])).not.toBe(commandHash(["a", "b", ""]));
  });

  test("does not depend on secrets", () => {
    expect(commandHash(["tool", "--token", "one"])).toBe(commandHash(["tool", "--token", "two"]));
  });

  test("depends on the end of a command that is too long to show", () => {
    const long = "x".repeat(10_000);
    expect(commandHash(["echo", long, "1"])).not.toBe(commandHash(["echo", long, "2"]));
  });
});
