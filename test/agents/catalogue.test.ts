import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { agentsById } from "../../src/agents/catalogue.js";
import {
  cliCommand,
  newAgentSessionId,
  takesNewSessionId,
  parseVersion,
} from "../../src/agents/one-shot-command.js";
import { fetchingArgv } from "../../src/acp/agent-command.js";
import { agentEntrySchema, type CliForm } from "../../src/config/agents.js";

const agents = agentsById();
const fresh = {
  ...{ prompt: "--yolo\n; rm -rf {sessionId}", sessionId: null, newSessionId: "new-1", timeoutMs: 0 },
};

test("the built-in agents have an ACP form and a command that can resume", () => {
  const both = [...agents.values()].filter(({ cli }) => cli !== undefined);
  expect(both.map(({ id }) => id)).toEqual([
    "claude",
    "codex",
    "cursor",
    "gemini",
    "pi",
    "opencode",
    "qwen",
    "copilot",
  ]);
  for (const entry of both) {
    expect(entry.acp?.argv.length).toBeGreaterThan(0);
    expect(entry.cli?.resumeArgv).toBeDefined();
    expect(entry.install).toBeDefined();
  }
});

test("the catalogue has every agent of acpx 0.19.1, and each entry says how it was verified", () => {
  const acpx = [
    ...["pi", "openclaw", "codex", "claude", "gemini", "cursor", "copilot", "antigravity", "devin", "droid"],
    ...["fast-agent", "fx", "grok-build", "iflow", "junie", "kilocode", "kimi", "kiro", "mcode", "mux"],
    ...["opencode", "pool", "qoder", "qwen", "trae", "zeroclaw"],
  ];
  expect(acpx.filter((id) => agents.get(id)?.acp === undefined)).toEqual([]);
  for (const { verified } of agents.values()) expect(verified).toMatch(/test:agents|^not run; /);
});

test("docs/reference/agents.md lists the catalogue", () => {
  const page = readFileSync("docs/reference/agents.md", "utf8");
  for (const { id, acp, verified } of agents.values()) {
    const npm = acp?.npm === undefined ? "-" : `\`${acp.npm.package}@${acp.npm.version}\``;
    expect(page).toContain(`| \`${id}\` | \`${acp?.argv.join(" ")}\` | ${npm} | ${verified} |\n`);
  }
});

test("the suite of real agents runs the versions of the catalogue", () => {
  const packages = JSON.parse(readFileSync("scripts/test-programs/agent-packages.json", "utf8")) as Record<
    string,
    string[]
  >;
  expect(Object.keys(packages)).toHaveLength(7);
  for (const [id, [adapter]] of Object.entries(packages)) {
    const npm = agents.get(id)?.acp?.npm;
    expect(adapter, id).toBe(`${npm?.package}@${npm?.version}`);
  }
});

test("an npm package is fetched in one version, by the command that npx runs", () => {
  const acp = agents.get("codex")?.acp;
  expect(acp === undefined ? null : fetchingArgv(acp)).toEqual([
    ...["npx", "--yes", "--package=@agentclientprotocol/codex-acp@2.6.0", "--", "codex-acp"],
  ]);
  expect(fetchingArgv({ argv: ["x"] })).toBeNull();
  for (const npm of [
    { package: "x", version: "latest" },
    { package: "git+ssh://x", version: "1.0.0" },
    { package: "../x", version: "1.0.0" },
  ])
    expect(() => agentEntrySchema.parse({ id: "x", acp: { argv: ["x"], npm } })).toThrow("must be");
});

const commandLine = [...agents.values()].filter(({ cli }) => cli !== undefined);
test.each(commandLine.map(({ id, cli }) => [id, cli as CliForm] as const))(
  "%s: a prompt is never taken for an option, or looked into",
  (_, form) => {
    for (const sessionId of [null, "ses_1"]) {
      const { argv, stdin } = cliCommand(form, { ...fresh, sessionId });
      const at = argv.findIndex((word) => word.includes("--yolo"));
      if (stdin === null) {
        expect(argv[at]).toBe(fresh.prompt);
        expect(argv[at - 1]).toBe("--");
      } else {
        expect(stdin).toBe(fresh.prompt);
        expect(at).toBe(-1);
      }
      expect(argv.filter((word) => word.includes("ses_1"))).toHaveLength(sessionId === null ? 0 : 1);
    }
  },
);

test.each(["--resume", "-x", "", "a b", "a\nb", "$(x)", "../x"])("%j is no session id", (sessionId) => {
  for (const { cli } of commandLine)
    expect(() => cliCommand(cli as CliForm, { ...fresh, sessionId })).toThrow(/session id/);
});

test("an empty prompt, and a resume without a resume form, are refused", () => {
  const { cli } = agentEntrySchema.parse({ id: "x", cli: { argv: ["x"] } });
  expect(() => cliCommand(cli!, { ...fresh, prompt: "" })).toThrow(/empty/);
  expect(() => cliCommand(cli!, { ...fresh, sessionId: "s" })).toThrow(/cannot be resumed/);
});

test("a new session has a longer no-output limit than a resumed one, and both are below the timeout", () => {
  const form = agents.get("claude")?.cli as CliForm;
  const limit = (sessionId: string | null, timeoutMs: number): number =>
    cliCommand(form, { ...fresh, prompt: "p", sessionId, timeoutMs }).noOutputTimeoutMs;
  expect([limit(null, 300_000), limit("s", 300_000)]).toEqual([240_000, 90_000]);
  expect([limit(null, 0), limit("s", 0)]).toEqual([600_000, 180_000]);
  expect(limit(null, 100_000)).toBe(99_000);
  expect(limit(null, 500)).toBe(1_000);
});

test("a configured agent is added to the built-in ones or replaces one", () => {
  const own = [
    { id: "mine", acp: { argv: ["./agent", "--acp"] }, env: { MODE: "quiet" } },
    { id: "codex", cli: { argv: ["my-codex", "--prompt={prompt}"] } },
  ].map((entry) => agentEntrySchema.parse(entry));
  const all = agentsById(own);
  expect(all.size).toBe(agents.size + 1);
  expect(all.get("codex")).toMatchObject({
    cli: { argv: ["my-codex", "--prompt={prompt}"], output: "text" },
  });
  expect(all.get("codex")?.acp).toBeUndefined();
  expect(cliCommand(all.get("codex")?.cli as CliForm, fresh)).toMatchObject({
    argv: ["my-codex", `--prompt=${fresh.prompt}`],
    stdin: null,
  });
});

test.each([
  ["neither command", {}],
  ["an empty command", { acp: { argv: [] } }],
  ["a NUL", { acp: { argv: ["a\0b"] } }],
  ["a word that is not known", { acp: { argv: ["a"] }, colour: "red" }],
  ["one of Holdfast's variables", { acp: { argv: ["a"] }, env: { HOLDFAST_RUN_ID: "x" } }],
  ["a resume form without its session", { cli: { argv: ["a"], resumeArgv: ["a", "-r"] } }],
  ["a session in the fresh form", { cli: { argv: ["a", "{sessionId}"] } }],
  ["two prompts", { cli: { argv: ["a", "{prompt}", "--again={prompt}"] } }],
  ["a prompt for its program", { cli: { argv: ["{prompt}"] } }],
  ["a session for its program", { cli: { argv: ["a"], resumeArgv: ["x={sessionId}"] } }],
  ["a prompt inside a word", { cli: { argv: ["a", "{prompt}, please"] } }],
  ["a prompt at the end of a word", { cli: { argv: ["a", "say:{prompt}"] } }],
  ["a prompt in a word twice", { cli: { argv: ["a", "{prompt}={prompt}"] } }],
  [
    "a watchdog upside down",
    { cli: { argv: ["a"], watchdog: { fresh: { ratio: 1, minMs: 9_000, maxMs: 2_000 } } } },
  ],
  ["an id that cannot be typed", { id: "My Agent", acp: { argv: ["a"] } }],
])("an entry with %s is refused", (_, entry) => {
  expect(agentEntrySchema.safeParse({ id: "x", ...entry }).success).toBe(false);
});

test.each([
  ["2.0.14 (Claude Code)", "2.0.14"],
  ["codex-cli 0.98.0-alpha.2\n", "0.98.0-alpha.2"],
  ["v1.18.33", "1.18.33"],
  ["unknown", null],
])("the version in %j", (output, version) => {
  expect(parseVersion(output)).toBe(version);
});

test("an agent that does not print its session's id gets one, derived from the run", () => {
  const copilot = agents.get("copilot")?.cli as CliForm;
  expect(takesNewSessionId(copilot)).toBe(true);
  expect(cliCommand(copilot, fresh).argv).toContain("--session-id=new-1");
  expect(cliCommand(copilot, { ...fresh, sessionId: "s" }).argv.join(" ")).not.toContain("new-1");
  const id = newAgentSessionId("run_000000000001");
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(newAgentSessionId("run_000000000001")).toBe(id);
  expect(newAgentSessionId("run_000000000002")).not.toBe(id);
});
