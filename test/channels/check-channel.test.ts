import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { describeChannel, checkChannel } from "../../src/channels/check-channel.js";
import { parseConfig } from "../../src/config/schema.js";
import { resolveSettings } from "../../src/config/resolve-settings.js";
import { channelEntry } from "../support/http-receiver.js";

const problem = (lines: string): string => {
  try {
    return `accepted ${JSON.stringify(parseConfig(`[channels.x]\n${lines}`, "c.toml").channels)}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
};

const WEBHOOK = 'kind = "webhook"\nsecrets = [{ env = "X" }]\n';
const NO_SECRET_HERE =
  'must be { env = "NAME" } or { file = "/absolute/path" }: this file must not contain a secret';

describe("the config table of a channel", () => {
  test.each([
    [
      'kind = "telegraph"',
      "line 2: channels.x.kind must be one of webhook, telegram, slack, command, desktop, bell",
    ],
    ['url = "https://a/b"', "line 1: channels.x.kind is missing"],
    [`${WEBHOOK}url = "ftp://a/b"`, "line 4: channels.x.url must be an address as https://host/path"],
    [
      `${WEBHOOK}url = "https://user:hush@a/b"`,
      "line 4: channels.x.url must be an address as https://host/path",
    ],
    [`${WEBHOOK}url = "http://a/b"`, "line 4: channels.x.url is not https; allow-http = true allows"],
    [
      `${WEBHOOK}url = "https://a/b"\nallow-networks = ["lan"]`,
      "line 5: channels.x.allow-networks.1 must be an address or a network",
    ],
    [
      `${WEBHOOK}url = "https://a/b"\ntimeout-m = 5`,
      "line 5: channels.x.timeout-m is not a setting (did you mean timeout-ms?)",
    ],
    [
      'kind = "webhook"\nurl = "https://a/b"\nsecrets = ["whsec_hush"]',
      `line 4: channels.x.secrets.1 ${NO_SECRET_HERE}`,
    ],
    [
      'kind = "webhook"\nurl = "https://a/b"\nsecrets = "whsec_hush"',
      "line 4: channels.x.secrets is ***; it must be a list",
    ],
    ['kind = "webhook"\nurl = "https://a/b"\nsecrets = []', "line 4: channels.x.secrets must not be empty"],
    ['kind = "telegram"\ntoken = "1:hush"', `line 3: channels.x.token ${NO_SECRET_HERE}`],
    [
      'kind = "telegram"\ntoken = { file = "hush" }',
      "line 3: channels.x.token.file must be an absolute path",
    ],
    [
      'kind = "telegram"\ntoken = { env = "T" }\nchat = "my chat"',
      "line 4: channels.x.chat must be a chat's number or @name",
    ],
    ['kind = "slack"\nurl = "https://hooks.slack.com/hush"', `line 3: channels.x.url ${NO_SECRET_HERE}`],
    ['kind = "command"\nargv = []', "line 3: channels.x.argv must not be empty"],
    ['kind = "bell"\nurl = "x"', "line 3: channels.x.url is not a setting (there are kind)"],
  ])("is refused with its line and without secrets if it is wrong: %s", (lines, message) => {
    expect(problem(lines)).toContain(`c.toml, ${message}`);
    expect(problem(lines)).not.toMatch(/hush(?!" \})/);
  });

  test("gets its defaults, and is shown by its name only", () => {
    const text = `[channels.ops]\n${WEBHOOK}url = "https://a/b?key=hush"\n[channels.me]\nkind = "desktop"\n`;
    expect(parseConfig(text, "c.toml").channels).toMatchObject({
      ops: { kind: "webhook", "timeout-ms": 10_000, "allow-http": false, "allow-networks": [] },
      me: { kind: "desktop", "timeout-ms": 20_000 },
    });
    const shown = resolveSettings(text, "c.toml", {}, {}).entries.find(({ key }) => key === "channels");
    expect(shown).toEqual({ key: "channels", value: ["ops", "me"], from: "file", variable: null });
  });
});

describe("without a request,", () => {
  const inspected = async (kind: Parameters<typeof channelEntry>[0], fields: object, env: object = {}) =>
    (
      await checkChannel(channelEntry(kind, fields as Record<string, unknown>), env as Record<string, string>)
    ).map(({ fatal, what }) => `${fatal ? "bad" : "warn"}: ${what}`);
  const strong = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

  test("a webhook's secrets and address are checked", async () => {
    const hook = { url: "https://example.com/x", secrets: [{ env: "A" }] };
    expect(await inspected("webhook", hook, { A: strong })).toEqual([]);
    expect(await inspected("webhook", hook)).toEqual(["warn: the variable A is not set in this environment"]);
    expect(await inspected("webhook", hook, { A: "whsec_aHVzaA==" })).toEqual([
      "bad: the secret of the webhook must be whsec_ followed by 24 to 64 bytes in base64",
    ]);
    const inside = { ...hook, url: "https://169.254.169.254/x", "allow-networks": [] };
    expect(await inspected("webhook", inside, { A: strong })).toEqual([
      "bad: 169.254.169.254 is not a public address, so nothing is sent to it",
    ]);
    expect(
      await inspected("webhook", { ...inside, "allow-networks": ["169.254.169.254"] }, { A: strong }),
    ).toEqual([]);
  });

  test("a secret that others can read is reported", async () => {
    const directory = await mkdtemp(join(tmpdir(), "hf-"));
    onTestFinished(() => rm(directory, { recursive: true }));
    const file = join(directory, "token");
    await writeFile(file, `123456:${"x".repeat(35)}`, { mode: 0o600 });
    const bot = { token: { file }, chat: "42" };
    expect(await inspected("telegram", bot)).toEqual([]);
    await chmod(file, 0o644);
    expect(await inspected("telegram", bot)).toEqual([`warn: others can read the secret in ${file}`]);
    await rm(file);
    expect(await inspected("telegram", bot)).toEqual([`bad: the secret in ${file} cannot be used: ENOENT`]);
    expect(await inspected("telegram", { token: { env: "T" } }, { T: "hush" })).toEqual([
      "bad: the token does not have the form of a bot token (123456:ABC…)",
      "warn: it has no chat: only notifications with an address of their own are delivered",
    ]);
  });

  test("Slack's address is checked and not shown", async () => {
    const slack = { url: { env: "S" }, "allow-http": false, "allow-networks": [] };
    expect(await inspected("slack", slack, { S: "https://hooks.slack.com/services/x" })).toEqual([]);
    expect(await inspected("slack", slack, { S: "http://hooks.slack.com/hush" })).toEqual([
      "bad: its address is not https, and allow-http is not set",
    ]);
    expect(await inspected("slack", slack, { S: "https://10.0.0.1/hush" })).toEqual([
      "bad: 10.0.0.1 is not a public address, so nothing is sent to it",
    ]);
    expect(describeChannel(channelEntry("slack", slack))).toBe("the address in S");
  });

  test("programs are looked up where a run would find them", async () => {
    expect(await inspected("command", { argv: ["sh"] }, { PATH: "/bin:/usr/bin" })).toEqual([]);
    expect(await inspected("command", { argv: ["no-such-pager"] }, { PATH: "/bin" })).toEqual([
      "bad: there is no program no-such-pager",
    ]);
    expect((await inspected("desktop", {}, { PATH: "/nowhere" }))[0]).toMatch(/^bad: there is no program /);
    expect(await inspected("bell", {})).toEqual([]);
  });
});
