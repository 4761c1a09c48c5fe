import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { defaults } from "../../src/defaults.js";
import { BadInput } from "../../src/errors.js";
import { parseConfig, readConfig } from "../../src/config/schema.js";
import { configPath } from "../../src/config/file.js";
import { temporaryDirectory } from "../support/temporary-directory.js";

const profile = (lines: string): string => `[[foreign]]\nname = "x"\nmarker = "X"\n${lines}\n`;

describe("a config file", () => {
  test("may be empty, and may declare markers of other tools and how to detect that the tool is gone", () => {
    expect(parseConfig("", "c.toml")).toMatchObject({ foreign: [], exec: [] });
    const text = `
      [[foreign]]
      name = "jenkins"
      marker = "JENKINS_NODE_COOKIE"

      [[foreign]]
      name = "paperclip"
      marker = "PAPERCLIP_RUN_ID"
      owner = { pid-variable = "PAPERCLIP_PID" }
      grace-ms = 0

      [[foreign]]
      name = "openclaw"
      marker = "OPENCLAW_ACPX_LEASE_ID"
      owner = { pid-file = "/run/openclaw.pid" }
    `;
    expect(parseConfig(text, "c.toml").foreign).toEqual([
      { name: "jenkins", marker: "JENKINS_NODE_COOKIE", owner: "orphaned", "grace-ms": defaults.graceMs },
      {
        name: "paperclip",
        marker: "PAPERCLIP_RUN_ID",
        owner: { "pid-variable": "PAPERCLIP_PID" },
        "grace-ms": 0,
      },
      {
        name: "openclaw",
        marker: "OPENCLAW_ACPX_LEASE_ID",
        owner: { "pid-file": "/run/openclaw.pid" },
        "grace-ms": defaults.graceMs,
      },
    ]);
  });

  test("may have own agents, with defaults for absent fields", () => {
    const { agents } = parseConfig(
      `[agents.mine]
       name = "Mine"
       acp = { argv = ["./mine", "--acp"], client = { files = "read", terminals = true } }
       env = { MODE = "quiet" }

       [agents.codex.cli]
       argv = ["my-codex", "--prompt={prompt}"]`,
      "c.toml",
    );
    expect(agents).toMatchObject({
      mine: {
        name: "Mine",
        acp: { argv: ["./mine", "--acp"], client: { files: "read", terminals: true } },
        versionArgs: ["--version"],
      },
      codex: { cli: { argv: ["my-codex", "--prompt={prompt}"], output: "text" }, env: {} },
    });
  });

  test.each<[string, string, string]>([
    [
      "an agent with no command",
      '[agents.mine]\nname = "x"',
      "c.toml, line 1: agents.mine: needs acp or cli, a command with its argv",
    ],
    [
      "an agent's name that cannot be typed",
      '\n[agents."My Agent"]\nacp = { argv = ["x"] }',
      "c.toml, line 2: agents.My Agent must be a short word of a-z, 0-9, _ and -",
    ],
    [
      "a key of an agent that is none",
      '[agents.mine]\nacp = { argv = ["x"] }\nversionArg = []',
      "c.toml, line 3: agents.mine.versionArg is not a setting (did you mean versionArgs?)",
    ],
    [
      "a key of an agent's command that is none",
      '[agents.mine.cli]\nargv = ["x"]\nresume = ["y"]',
      "c.toml, line 3: agents.mine.cli.resume is not a setting",
    ],
    [
      "a root of an agent's files that is nowhere",
      '[agents.mine.acp]\nargv = ["x"]\nclient = { roots = ["shared"] }',
      "c.toml, line 3: agents.mine.acp.client.roots.1 must be an absolute path",
    ],
    [
      "an unknown output format",
      '[agents.mine.cli]\nargv = ["x"]\noutput = "xml"',
      'c.toml, line 3: agents.mine.cli.output is "xml"; it may be text, result, codex, gemini, opencode or pi',
    ],
    [
      "a resume form without its session",
      '[agents.mine.cli]\nargv = ["x"]\nresumeArgv = ["x", "-r"]',
      "c.toml, line 1: agents.mine.cli: resumeArgv must have {sessionId} once",
    ],
    [
      "one of our own variables for an agent",
      '[agents.mine]\nacp = { argv = ["x"] }\nenv = { HOLDFAST_RUN_ID = "x" }',
      "c.toml, line 3: agents.mine.env.HOLDFAST_RUN_ID must not be one of Holdfast's own",
    ],
    ["no TOML", "x = [", "c.toml is not valid TOML, line "],
    ["a key that is none", "foreing = 1", "c.toml, line 1: foreing is not a setting (did you mean foreign?)"],
    [
      "a key of a profile that is none",
      profile("markers = 1"),
      "c.toml, line 4: foreign.1.markers is not a setting (did you mean marker?)",
    ],
    ["one of our own markers", profile("").replace('"X"', '"HOLDFAST_LEASE_ID"'), "foreign.1.marker "],
    ["no name of a variable", profile("").replace('"X"', '"A B"'), "the name of an environment variable"],
    [
      "an owner of no kind",
      profile('owner = "dead"'),
      'foreign.1.owner must be "orphaned", "orphaned-in-container", { pid-variable',
    ],
    ["two kinds of owner", profile('owner = { pid-variable = "P", pid-file = "/x" }'), "foreign.1.owner "],
    [
      "a relative pid file",
      profile('owner = { pid-file = "x" }'),
      "foreign.1.owner.pid-file must be an absolute path",
    ],
    ["patience without end", profile("grace-ms = 1000000000"), "foreign.1.grace-ms "],
    ["a name with a space", profile("").replace('"x"', '"a b"'), "foreign.1.name must be a short word"],
    ["a name twice", profile("") + profile(""), "foreign: two profiles have the same name"],
    ["no marker", '[[foreign]]\nname = "x"', "foreign.1.marker is missing"],
    [
      "a value that the setting does not allow",
      '[gateway]\nlog-level = "x"',
      'line 2: gateway.log-level is "x"; it may be info, warn or silent',
    ],
    [
      "text for a number",
      '[defaults]\ntimeout-ms = "1h"',
      'defaults.timeout-ms is "1h"; it must be a whole number',
    ],
    ["less than nothing", "[defaults]\ngrace-ms = -1", "defaults.grace-ms must be 0 or more"],
    [
      "an unknown effect of a permission rule",
      '[[permissions]]\neffect = "reject"',
      'line 2: permissions.1.effect is "reject"; it may be allow, deny or ask',
    ],
    [
      "a second rule without an effect",
      '[[exec]]\neffect = "ask"\n[[exec]]\nexecutable = "git"',
      "line 3: exec.2.effect is missing",
    ],
  ])("with %s is rejected with the line", (_, text, why) => {
    const parse = (): unknown => parseConfig(text, "c.toml");
    expect(parse).toThrow(BadInput);
    expect(parse).toThrow(why);
    expect(parse).toThrow(/^c\.toml[ ,:][^\n]+othing was changed$/);
  });
});

describe("the path of the config file", () => {
  test.each([
    [{ HOLDFAST_CONFIG: "/c.toml", HOME: "/h" }, "linux", "/c.toml"],
    [{ HOLDFAST_CONFIG: "", HOME: "/h" }, "linux", "/h/.config/holdfast/config.toml"],
    [{ XDG_CONFIG_HOME: "/x", HOME: "/h" }, "linux", "/x/holdfast/config.toml"],
    [{ XDG_CONFIG_HOME: "relative", HOME: "/h" }, "linux", "/h/.config/holdfast/config.toml"],
    [{ HOME: "/h" }, "darwin", "/h/Library/Application Support/holdfast/config.toml"],
    [{ APPDATA: "/a", HOME: "/h" }, "win32", "/a/holdfast/config.toml"],
  ] as const)("%o on %s", (env, platform, path) => {
    expect(configPath(env, platform)).toBe(path);
  });

  afterEach(() => vi.unstubAllEnvs());

  test("may be missing, unless it was set explicitly; an existing file must be readable", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "config.toml");
    expect(await readConfig(path)).toEqual(parseConfig("", path));
    vi.stubEnv("HOLDFAST_CONFIG", path);
    await expect(readConfig()).rejects.toThrow(`the config file ${path} cannot be read`);
    await writeFile(path, profile(""));
    expect((await readConfig()).foreign).toHaveLength(1);
    const folder = join(directory.path, "folder");
    await mkdir(folder);
    await expect(readConfig(folder)).rejects.toThrow(BadInput);
  });
});

test("the default channel must be a channel of the config", () => {
  const channel = '[channels.team]\nkind = "bell"\n';
  expect(parseConfig(`${channel}[notify]\nchannel = "team"\naddress = "7"`, "c").notify).toEqual({
    channel: "team",
    address: "7",
    deliver: "user",
  });
  expect(() => parseConfig(`${channel}[notify]\nchannel = "tea"`, "c")).toThrow(
    "c, line 4: notify.channel must be the name of a channel, and there is no [channels.tea]",
  );
  expect(() => parseConfig('[notify]\naddress = "7"', "c")).toThrow("notify.address is set without");
  expect(() => parseConfig('[notify]\ndeliver = "all"', "c")).toThrow("it may be user, session or wake");
});
