import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { cliPath } from "../../support/cli/cli-fixture.js";
import {
  openScriptedSession,
  planStep,
  scriptedPrompt,
  toolStep,
} from "../../support/agents/scripted-agent.js";
import { waitFor } from "../../support/wait-for.js";

let gatewayFixture: BackgroundGateway;
let directory: string;
let session: string;
beforeAll(async () => {
  gatewayFixture = await BackgroundGateway.started();
  session = await openScriptedSession(gatewayFixture, "r");
  directory = await mkdtemp(join(tmpdir(), "hf-"));
});
afterAll(async () => {
  await gatewayFixture[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

/** `holdfast acp …` on a terminal of this size; its run. */
async function terminal(env: Record<string, string>, ...args: readonly string[]): Promise<string> {
  return terminalOf(60, env, ...args);
}

async function terminalOf(
  cols: number,
  env: Record<string, string>,
  ...args: readonly string[]
): Promise<string> {
  const argv = [process.execPath, cliPath, "acp", ...args];
  return gatewayFixture.startRun({ argv, pty: true, rows: 20, cols, env: { TERM: "xterm", ...env } });
}

async function screen(runId: string): Promise<string[]> {
  const { rows } = await (await gatewayFixture.client()).screen({ params: { runId } });
  return rows.map((row) => row.trimEnd()).filter((row) => row !== "");
}

async function type(runId: string, ...keys: readonly string[]): Promise<void> {
  await (await gatewayFixture.client()).sendKeys({ params: { runId }, body: { keys: [...keys] } });
}

async function ended(runId: string): Promise<RunRecord> {
  return gatewayFixture.waitForEnd(runId);
}

/** The agent waits here until the test opens it. */
function gate(name: string): { readonly path: string; readonly open: () => Promise<void> } {
  const path = join(directory, name);
  return { path, open: () => writeFile(path, "") };
}

test("tools are updated in place, and thoughts and plans take one line", async () => {
  const [half, all] = [gate("half"), gate("all")];
  const long = `look ${"far and ".repeat(20)}`;
  const prompt = scriptedPrompt(
    { think: long },
    { think: long },
    toolStep("a", "pending", { title: long, kind: "read" }),
    toolStep("b", "in_progress", { title: "leap", kind: "execute" }),
    planStep(["look", "in_progress"], ["leap", "pending"]),
    { wait: half.path },
    toolStep("a", "completed"),
    toolStep("b", "failed"),
    planStep(["look", "completed"], ["leap", "in_progress"]),
    { say: "so far" },
    { wait: all.path },
    { say: " so good" },
  );
  const runId = await terminal({}, "prompt", session, prompt);
  await gatewayFixture.waitForScreen(runId, "plan: 0 of 2");
  expect(await screen(runId)).toEqual([
    expect.stringMatching(/^~ look far and .*…$/),
    expect.stringMatching(/^· read: look far and .*… {2}pending$/),
    "… execute: leap  in progress",
    "plan: 0 of 2 done, now: look",
  ]);
  await half.open();
  await gatewayFixture.waitForScreen(runId, "so far");
  await all.open();
  expect((await ended(runId)).exit).toMatchObject({ code: 0 });
  expect(await screen(runId)).toEqual([
    expect.stringMatching(/^~ look far and .*…$/),
    expect.stringMatching(/^✓ read: look far and .*… {2}completed$/),
    "✗ execute: leap  failed",
    "plan: 1 of 2 done, now: leap",
    "so far so good",
  ]);
});

test("a tool takes one line on a narrow terminal too", async () => {
  const [a, b] = ["漢字", "b"].map((title) => ({ title: `${title} and so on`, kind: "read" }));
  const begun = [toolStep("a", "in_progress", a), toolStep("b", "in_progress", b)];
  const prompt = scriptedPrompt(...begun, toolStep("a", "completed"), toolStep("b", "failed"));
  const runId = await terminalOf(18, {}, "prompt", session, prompt);
  await ended(runId);
  expect(await screen(runId)).toEqual(["✓ read: 漢字 and…", "✗ read: b and so…"]);
  const history = await terminalOf(18, {}, "history", "--limit", "1", session);
  await ended(history);
  expect((await screen(history)).slice(-2)).toEqual(["✓ read: 漢字 and …", "✗ read: b…  failed"]);
});

test("there are colours, and none with NO_COLOR", async () => {
  const prompt = scriptedPrompt(toolStep("a", "completed", { title: "look", kind: "read" }));
  const { log } = await gatewayFixture.client();
  const written = async (env: Record<string, string>): Promise<string> => {
    const runId = await terminal(env, "prompt", session, prompt);
    await ended(runId);
    const { text } = await log({ params: { runId }, query: { raw: "1" } });
    return text;
  };
  expect(await written({})).toContain("\u001b[32m✓");
  expect(await written({ NO_COLOR: "1" })).not.toContain("\u001b[32m");
});

test.each([
  [["y"], "<yes>", "allowed: execute: rm -rf / (operator)"],
  [[], "<no>", "denied: execute: rm -rf / (operator)"],
])("a permission request is asked on the terminal: %j", async (answer, text, line) => {
  const runId = await terminal(
    {},
    "prompt",
    session,
    scriptedPrompt({ ask: "rm -rf\n\u001b[2J/" }, { say: " over" }),
  );
  await gatewayFixture.waitForScreen(runId, "allow it? [y/N/always/never/later/1-3] (expires in");
  expect((await screen(runId)).slice(0, 3)).toEqual([
    String.raw`? r: execute: $'rm -rf\n\e[2J/'`,
    String.raw`title: $'rm -rf\n`,
    String.raw`    \e[2J/'`,
  ]);
  await type(runId, ...answer, "Enter");
  expect((await ended(runId)).exit).toMatchObject({ code: 0 });
  expect(await screen(runId)).toEqual(expect.arrayContaining([line, `${text} over`]));
});

test("always is remembered, and a number chooses one of the agent's options", async () => {
  const asks = scriptedPrompt({ ask: "leap" }, { ask: "jump" }, { ask: "leap" });
  const runId = await terminal({}, "prompt", session, asks);
  await gatewayFixture.waitForScreen(runId, "allow it?");
  await type(runId, "a", "Enter");
  const options = ["  1: Always (allow always)", "  2: Yes (allow once)", "  3: No (reject once)"];
  await gatewayFixture.waitForScreen(
    runId,
    ["? r: execute: jump", ...options, "  allow it? [y/N/always/never/later/1-3]"].join("\n"),
  );
  await type(runId, "1", "Enter");
  expect((await ended(runId)).exit).toMatchObject({ code: 0 });
  expect((await screen(runId)).join("\n")).toMatch(/<yes>[^]*<always><yes>$/);
  const { acpRules, acpRevokeRule } = await gatewayFixture.client();
  const { rules } = await acpRules({ query: { session } });
  expect(rules).toMatchObject([{ effect: "allow", title: "leap", scope: "session", sessionKey: "r" }]);
  await acpRevokeRule({ params: { id: rules[0]?.id ?? "" } });
});

test("a request that another client answers is withdrawn; updates wait meanwhile", async () => {
  const client = await gatewayFixture.client();
  const runId = await terminal({}, "prompt", session, scriptedPrompt({ ask: "leap" }, { say: " over" }));
  await gatewayFixture.waitForScreen(runId, "allow it");
  const { permissions } = await client.acpPermissions({ query: { session } });
  await client.acpAnswer({ params: { id: permissions[0]?.id ?? "" }, body: { verdict: "allow" } });
  expect((await ended(runId)).exit).toMatchObject({ code: 0 });
  expect((await screen(runId)).slice(-2)).toEqual(["allowed: execute: leap (operator)", "<yes> over"]);
});

test("input from before the question is ignored", async () => {
  const asked = gate("asked");
  const runId = await terminal(
    {},
    "prompt",
    session,
    scriptedPrompt({ say: "up" }, { wait: asked.path }, { ask: "leap" }),
  );
  await gatewayFixture.waitForScreen(runId, "up");
  await type(runId, "y", "Enter");
  await asked.open();
  await gatewayFixture.waitForScreen(runId, "allow it");
  const client = await gatewayFixture.client();
  expect((await client.acpPermissions({ query: { session } })).permissions).toHaveLength(1);
  await type(runId, "n", "Enter");
  await ended(runId);
  expect((await screen(runId)).at(-1)).toBe("<no>");
});

test("Ctrl-C at the question cancels the turn and its request", async () => {
  const runId = await terminal({}, "prompt", session, scriptedPrompt({ ask: "leap" }));
  await gatewayFixture.waitForScreen(runId, "allow it");
  await type(runId, "C-c");
  expect((await ended(runId)).exit).toMatchObject({ code: 130 });
  const shown = await screen(runId);
  expect(shown).toContainEqual(expect.stringMatching(/^holdfast: cancelling the turn/));
  expect(shown.join("\n")).toContain("the turn is cancelled");
});

test("one Ctrl-C cancels the turn and waits for its end; the agent stays", async () => {
  const client = await gatewayFixture.client();
  const before = (await client.acpShow({ params: { id: session } })).session.runId;
  const runId = await terminal({}, "prompt", session, scriptedPrompt({ say: "up" }, { wait: "/nowhere" }));
  await gatewayFixture.waitForScreen(runId, "up");
  await type(runId, "C-c");
  expect((await ended(runId)).exit).toMatchObject({ code: 130 });
  const shown = (await screen(runId)).join("\n");
  expect(shown).toContain("cancelling the turn; Ctrl-C again leaves");
  expect(shown).toContain("the turn is cancelled");
  const { session: after, turns: all } = await client.acpShow({ params: { id: session } });
  expect(after).toMatchObject({ state: "ready", runId: before });
  expect(all).toMatchObject([{ outcome: "cancelled" }]);
});

test("a second Ctrl-C leaves at once, and the gateway continues to cancel", async () => {
  const client = await gatewayFixture.client();
  const agent = [
    process.execPath,
    new URL("../../support/agents/programs/misbehaving-agent.mjs", import.meta.url).pathname,
  ];
  const argv = [...agent, "ignores-cancel"];
  const deaf = await client.acpSpawn({ body: { argv, cwd: gatewayFixture.home, key: "deaf" } });
  const params = { id: deaf.session.sessionId };
  const runId = await terminal({}, "prompt", "deaf", "go");
  await gatewayFixture.waitForScreen(runId, "busy");
  await type(runId, "C-c");
  await gatewayFixture.waitForScreen(runId, "cancelling the turn");
  await type(runId, "C-c");
  expect((await ended(runId)).exit).toMatchObject({ code: 130 });
  expect((await screen(runId)).join(" ")).toMatch(/left; the gateway continues to cancel the turn/);
  const { turns: all } = await client.acpShow({ params });
  expect(all).toMatchObject([{ state: "running", cancel: { actor: "operator" } }]);
  await client.kill({ params: { runId: deaf.session.runId ?? "" } });
  await client.acpClose({ params });
});

test("Ctrl-C while the agent starts closes the session", async () => {
  const runId = await terminal({}, "spawn", "--agent-command", "exec sleep 3044", "--name", "slow", "hello");
  await waitFor("the session exists", async () => {
    const { sessions } = await (await gatewayFixture.client()).acpList({});
    return sessions.some(({ key }) => key === "slow");
  });
  await type(runId, "C-c");
  expect((await ended(runId)).exit).toMatchObject({ code: 130 });
  expect((await screen(runId)).at(-1)).toBe("holdfast: slow is closed");
  const { sessions } = await (await gatewayFixture.client()).acpList({});
  expect(sessions.map(({ key }) => key)).not.toContain("slow");
});

test("on a terminal, the fields of a form are asked for until they fit, and an address is not opened", async () => {
  const properties = {
    port: { type: "integer", minimum: 1 },
    zones: { type: "array", items: { enum: ["a", "b"] } },
    stage: { type: "string", default: "test" },
  };
  const requestedSchema = { type: "object", properties, required: ["port"] };
  const url = { mode: "url", elicitationId: "e1", message: "Log in", url: "https://example.test/in" };
  const prompt = scriptedPrompt({ elicit: { message: "Where?", requestedSchema } }, { elicit: url });
  const runId = await terminalOf(100, {}, "prompt", session, prompt);
  const answer = async (question: string, ...keys: readonly string[]): Promise<void> => {
    await gatewayFixture.waitForScreen(runId, question);
    await type(runId, ...keys);
  };
  await answer("answer it? [y/N/later]", "y", "Enter");
  await answer("port (integer):", "0", "Enter");
  await answer("zones (values, separated by commas, optional):", "a", ",", "b", "Enter");
  await answer("stage (string, default test):", "Enter");
  await answer('the field "port" needs at least 1; nothing was sent\n  port (integer):', "8", "0", "Enter");
  await answer("port (integer): 80\n  zones (values, separated by commas, optional):", "Enter");
  await answer("optional):\n  stage (string, default test):", "Enter");
  await gatewayFixture.waitForScreen(runId, '<accept {"port":80,"stage":"test"}>');
  await gatewayFixture.waitForScreen(runId, "open it yourself: https://example.test/in");
  await answer("done? [y/N/later]", "y", "Enter");
  expect((await ended(runId)).exit).toMatchObject({ code: 0 });
  expect(await screen(runId)).toContainEqual(expect.stringContaining("<accept>"));
});
