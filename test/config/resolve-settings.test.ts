import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { parseConfig } from "../../src/config/schema.js";
import { environmentWithConfig, resolveSettings, settingsToToml } from "../../src/config/resolve-settings.js";
import { gatewayForFile, errorOf } from "../support/gateway/real-gateway.js";

const file = `
[gateway]
listen = "127.0.0.1:0"

[defaults]
grace-ms = 70
timeout-ms = 60000

[a2a]
enabled = true
allow = [{ from = "a", to = "b" }]

[[exec]]
effect = "deny"
executable = "env"
`;

const settle = (text: string, env: Record<string, string> = {}, flags: Record<string, string> = {}) =>
  resolveSettings(text, "c.toml", flags, env);

describe("settings", () => {
  test("come from a flag, the environment, the file or the default, in this order, with their source", () => {
    const env = {
      HOLDFAST_DEFAULTS_GRACE_MS: "80",
      HOLDFAST_GATEWAY_LISTEN: "[::1]:1",
      HOLDFAST_A2A_ENABLED: "false",
    };
    const { config, entries: each } = settle(file, env, { "gateway.listen": "127.0.0.1:2" });
    expect(config).toMatchObject({
      gateway: { listen: "127.0.0.1:2", "log-level": "info" },
      defaults: { "grace-ms": 80, "timeout-ms": 60_000, "yield-ms": defaults.execYieldMs },
      a2a: { enabled: false, allow: [{ from: "a", to: "b" }] },
    });
    const from = Object.fromEntries(each.map((setting) => [setting.key, setting.from]));
    expect(from).toMatchObject({
      "gateway.listen": "flag",
      "gateway.log-level": "default",
      "defaults.grace-ms": "environment",
      "defaults.timeout-ms": "file",
      "a2a.enabled": "environment",
      "a2a.allow": "file",
      exec: "file",
      foreign: "default",
    });
  });

  test("written as one file are the same without flags and environment", () => {
    const env = { HOLDFAST_DEFAULTS_GRACE_MS: "80", HOLDFAST_DATABASE_URL_FILE: "/run/secrets/db" };
    const flags = { "gateway.listen": "127.0.0.1:2" };
    const given = `${file}\n[database]\nurl = "postgres://h/d"\n`;
    const written = settingsToToml(given, "c.toml", flags, env);
    const { config } = settle(given, env, flags);
    expect(settle(written).config).toEqual({
      ...config,
      database: { "url-file": "/run/secrets/db", migrate: "auto" },
    });
  });

  test("of a former gateway are not mixed with the environment", () => {
    const env = {
      HOLDFAST_DEFAULTS_GRACE_MS: "80",
      HOLDFAST_CONFIG: "/new.toml",
      HOLDFAST_HOME: "/h",
      PATH: "/bin",
    };
    expect(environmentWithConfig("/former.toml", "", env)).toEqual({
      HOLDFAST_CONFIG: "/former.toml",
      HOLDFAST_HOME: "/h",
      PATH: "/bin",
    });
  });

  test("of a former gateway contain no database address from the environment, which is read again", () => {
    const env = { HOLDFAST_DATABASE_URL: "postgres://ada:hunter2@h:7/d", PATH: "/bin" };
    const written = settingsToToml(file, "c.toml", {}, env);
    expect(written).not.toContain("hunter2");
    expect(environmentWithConfig("/former.toml", written, env)).toEqual({
      ...env,
      HOLDFAST_CONFIG: "/former.toml",
    });
    expect(settle(written, env).config).toEqual(settle(file, env).config);
  });

  test("contain neither the password nor the user of a database", () => {
    const settings = settle("", { HOLDFAST_DATABASE_URL: "postgres://ada:hunter2@h:7/d?password=hunter3" });
    expect(settings.entries).toContainEqual({
      key: "database.url",
      value: "postgres database d at h:7",
      from: "environment",
      variable: "HOLDFAST_DATABASE_URL",
    });
    expect(JSON.stringify(settings)).not.toMatch(/hunter|ada/);
  });

  test("ignore an empty variable", () => {
    expect(settle(file, { HOLDFAST_GATEWAY_LISTEN: "" }).config.gateway.listen).toBe("127.0.0.1:0");
  });

  test.each<[string, string, Record<string, string>, string]>([
    [
      "a key with a slip",
      "[gateway]\n\nlisen = 1",
      {},
      "c.toml, line 3: gateway.lisen is not a setting (did you mean listen?)",
    ],
    [
      "a key like no other",
      "[a2a]\nx = 1",
      {},
      "c.toml, line 2: a2a.x is not a setting (there are enabled, allow)",
    ],
    [
      "a table with a slip",
      "[gatewy]\n",
      {},
      "c.toml, line 1: gatewy is not a setting (did you mean gateway?)",
    ],
    [
      "the second of two rules",
      '[[exec]]\neffect="allow"\n[[exec]]\neffect = "alow"',
      {},
      'c.toml, line 4: exec.2.effect is "alow"; it may be allow, ask or deny',
    ],
    ["a table that is none", "gateway = 1", {}, "c.toml, line 1: gateway is 1; it must be a table"],
    [
      "a table that is none, and a variable",
      "gateway = 1",
      { HOLDFAST_GATEWAY_LISTEN: "[::1]:1" },
      "c.toml, line 1: gateway is 1; it must be a table",
    ],
    [
      "a variable",
      "",
      { HOLDFAST_DEFAULTS_GRACE_MS: "soon" },
      "HOLDFAST_DEFAULTS_GRACE_MS: defaults.grace-ms ",
    ],
    [
      "a database's address, which is not repeated",
      "",
      { HOLDFAST_DATABASE_URL: "mysql://a:hunter2@b/c" },
      "HOLDFAST_DATABASE_URL: database.url must look like postgres://user:password@",
    ],
    ["a number out of bounds", "[defaults]\nyield-ms = 5", {}, "c.toml, line 2: defaults.yield-ms "],
    [
      "a rule of a2a",
      '[a2a]\nallow = [{ form = "a", to = "b" }]',
      {},
      "a2a.allow.1.form is not a setting (did you mean from?)",
    ],
  ])("with %s are rejected with their source", (_, text, env, why) => {
    expect(() => settle(text, env)).toThrow(why);
    expect(() => settle(text, env)).toThrow(/^(?!.*hunter2)[^\n]+Nothing was changed$/);
  });

  test.each([
    "0.0.0.0:1",
    "192.168.1.1:80",
    "[::]:1",
    "example.com:80",
    "127.0.0.1",
    "127.0.0.1:70000",
    ":80",
    "127.1:80",
    "[::1%lo]:1",
    "[::ffff:10.0.0.1]:1",
  ])("no gateway listens on %s", (listen) => {
    expect(() => settle(`[gateway]\nlisten = "${listen}"`)).toThrow(
      "line 2: gateway.listen must be a loopback address",
    );
  });
});

const gatewayFixture = gatewayForFile({
  config: parseConfig(`${file}\n[[exec]]\neffect = "allow"\n[visibility]\ndefault = "self"`, "c.toml"),
});

test("settings are the defaults of an exec", async () => {
  const { run } = await gatewayFixture.client.exec({ body: { argv: ["true"] } });
  expect(run).toMatchObject({ policy: { graceMs: 70, onEscape: "fail" }, deadlines: { overallMs: 60_000 } });
  const { run: requested } = await gatewayFixture.client.exec({
    body: { argv: ["true"], graceMs: 9, timeoutMs: 0 },
  });
  expect(requested).toMatchObject({ policy: { graceMs: 9 }, deadlines: { overallMs: null } });
});

test("a session without its own rules and visibility has those of the settings", async () => {
  const { session, token } = await gatewayFixture.client.openSession({ body: { key: "unsaid" } });
  expect(session).toMatchObject({ visibility: "self", execRules: [{ effect: "deny" }, { effect: "allow" }] });
  const client = gatewayFixture.as(token);
  expect((await errorOf(client.exec({ body: { argv: ["env"] } }))).code).toBe("EXEC_DENIED");
  expect(await client.exec({ body: { argv: ["true"] } })).toMatchObject({ failure: null });
});

test("a2a rules allow the sessions of one agent to see those of another, in one direction", async () => {
  const open = async (key: string, agentId: string) =>
    gatewayFixture.as(
      (await gatewayFixture.client.openSession({ body: { key, agentId, visibility: "all" } })).token,
    );
  const [a, b] = [await open("of-a", "a"), await open("of-b", "b")];
  const { run } = await b.exec({ body: { argv: ["true"] } });
  expect((await a.getRun({ params: run })).agentId).toBe("b");
  const { run: other } = await a.exec({ body: { argv: ["true"] } });
  expect((await errorOf(b.getRun({ params: other }))).code).toBe("RUN_NOT_FOUND");
});

test("a session cannot start a run in the name of another agent", async () => {
  const { token } = await gatewayFixture.client.openSession({ body: { key: "without-agent" } });
  const { token: withAgent } = await gatewayFixture.client.openSession({
    body: { key: "with-agent", agentId: "own" },
  });
  for (const client of [gatewayFixture.as(token), gatewayFixture.as(withAgent)]) {
    const answer = await errorOf(client.exec({ body: { argv: ["true"], agentId: "other" } }));
    expect(answer.code).toBe("EXEC_DENIED");
    expect((await client.listRuns({ query: { all: "1" } })).runs).toEqual([]);
  }
  const { run } = await gatewayFixture.as(withAgent).exec({ body: { argv: ["true"], agentId: "own" } });
  expect(run.agentId).toBe("own");
});
