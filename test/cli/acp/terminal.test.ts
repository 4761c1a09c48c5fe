import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunRecord } from "../../../src/store/run-record.js";
import { until } from "../../io/until.js";
import { Resident } from "../resident.js";
import { main } from "../stage.js";
import { openRecital, plan, steps, tool } from "./recital.js";

let resident: Resident;
let directory: string;
let session: string;
beforeAll(async () => {
  resident = await Resident.started();
  session = await openRecital(resident, "r");
  directory = await mkdtemp(join(tmpdir(), "hf-"));
}, 30_000);
afterAll(async () => {
  await resident[Symbol.asyncDispose]();
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
  const argv = [process.execPath, main, "acp", ...args];
  return resident.background({ argv, pty: true, rows: 20, cols, env: { TERM: "xterm", ...env } });
}

async function screen(runId: string): Promise<string[]> {
  const { rows } = await (await resident.client()).screen({ params: { runId } });
  return rows.map((row) => row.trimEnd()).filter((row) => row !== "");
}

async function type(runId: string, ...keys: readonly string[]): Promise<void> {
  await (await resident.client()).sendKeys({ params: { runId }, body: { keys: [...keys] } });
}

async function ended(runId: string): Promise<RunRecord> {
  return resident.ended(runId);
}

/** A place where the agent waits until the test has seen enough. */
function gate(name: string): { readonly path: string; readonly open: () => Promise<void> } {
  const path = join(directory, name);
  return { path, open: () => writeFile(path, "") };
}

test("tools change in their place, and thoughts and plans stay one line", async () => {
  const [half, all] = [gate("half"), gate("all")];
  const long = `look ${"far and ".repeat(20)}`;
  const prompt = steps(
    { think: long },
    { think: long },
    tool("a", "pending", { title: long, kind: "read" }),
    tool("b", "in_progress", { title: "leap", kind: "execute" }),
    plan(["look", "in_progress"], ["leap", "pending"]),
    { wait: half.path },
    tool("a", "completed"),
    tool("b", "failed"),
    plan(["look", "completed"], ["leap", "in_progress"]),
    { say: "so far" },
    { wait: all.path },
    { say: " so good" },
  );
  const runId = await terminal({}, "prompt", session, prompt);
  await resident.shows(runId, "plan: 0 of 2");
  expect(await screen(runId)).toEqual([
    expect.stringMatching(/^~ look far and .*…$/),
    expect.stringMatching(/^· read: look far and .*… {2}pending$/),
    "… execute: leap  in progress",
    "plan: 0 of 2 done, now: look",
  ]);
  await half.open();
  await resident.shows(runId, "so far");
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

test("a tool is one line on the narrowest terminal, too", async () => {
  const [a, b] = ["漢字", "b"].map((title) => ({ title: `${title} and so on`, kind: "read" }));
  const begun = [tool("a", "in_progress", a), tool("b", "in_progress", b)];
  const prompt = steps(...begun, tool("a", "completed"), tool("b", "failed"));
  const runId = await terminalOf(18, {}, "prompt", session, prompt);
  await ended(runId);
  expect(await screen(runId)).toEqual(["✓ read: 漢字 and…", "✗ read: b and so…"]);
  const history = await terminalOf(18, {}, "history", "--limit", "1", session);
  await ended(history);
  expect((await screen(history)).slice(-2)).toEqual(["✓ read: 漢字 and …", "✗ read: b…  failed"]);
});

test("there are colours, and none where nobody wants them", async () => {
  const prompt = steps(tool("a", "completed", { title: "look", kind: "read" }));
  const { log } = await resident.client();
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
])("a question is asked on the terminal: %j", async (answer, said, line) => {
  const runId = await terminal({}, "prompt", session, steps({ ask: "rm -rf\n\u001b[2J/" }, { say: " over" }));
  await resident.shows(runId, "allow it, this once? [y/N/later] (expires in");
  expect((await screen(runId)).slice(0, 3)).toEqual([
    String.raw`? execute: $'rm -rf\n\e[2J/'`,
    String.raw`title: $'rm -rf\n`,
    String.raw`    \e[2J/'`,
  ]);
  await type(runId, ...answer, "Enter");
  expect((await ended(runId)).exit).toMatchObject({ code: 0 });
  expect(await screen(runId)).toEqual(expect.arrayContaining([line, `${said} over`]));
});

test("a question that somebody else answers is asked no more; what happens meanwhile waits", async () => {
  const client = await resident.client();
  const runId = await terminal({}, "prompt", session, steps({ ask: "leap" }, { say: " over" }));
  await resident.shows(runId, "allow it");
  const { permissions } = await client.acpPermissions({ query: { session } });
  await client.acpAnswer({ params: { id: permissions[0]?.id ?? "" }, body: { verdict: "allow" } });
  expect((await ended(runId)).exit).toMatchObject({ code: 0 });
  expect((await screen(runId)).slice(-2)).toEqual(["allowed: execute: leap (operator)", "<yes> over"]);
});

test("what was typed before the question is no answer to it", async () => {
  const asked = gate("asked");
  const runId = await terminal(
    {},
    "prompt",
    session,
    steps({ say: "up" }, { wait: asked.path }, { ask: "leap" }),
  );
  await resident.shows(runId, "up");
  await type(runId, "y", "Enter");
  await asked.open();
  await resident.shows(runId, "allow it");
  const client = await resident.client();
  expect((await client.acpPermissions({ query: { session } })).permissions).toHaveLength(1);
  await type(runId, "n", "Enter");
  await ended(runId);
  expect((await screen(runId)).at(-1)).toBe("<no>");
});

test("Ctrl-C at the question cancels the turn, and the question with it", async () => {
  const runId = await terminal({}, "prompt", session, steps({ ask: "leap" }));
  await resident.shows(runId, "allow it");
  await type(runId, "C-c");
  expect((await ended(runId)).exit).toMatchObject({ code: 130 });
  const shown = await screen(runId);
  expect(shown).toContainEqual(expect.stringMatching(/^holdfast: cancelling the turn/));
  expect(shown.join("\n")).toContain("the turn is cancelled");
});

test("Ctrl-C once cancels the turn and waits for its end; the agent stays", async () => {
  const client = await resident.client();
  const before = (await client.acpShow({ params: { id: session } })).session.runId;
  const runId = await terminal({}, "prompt", session, steps({ say: "up" }, { wait: "/nowhere" }));
  await resident.shows(runId, "up");
  await type(runId, "C-c");
  expect((await ended(runId)).exit).toMatchObject({ code: 130 });
  const shown = (await screen(runId)).join("\n");
  expect(shown).toContain("cancelling the turn; Ctrl-C again leaves");
  expect(shown).toContain("the turn is cancelled");
  const { session: after, turns: all } = await client.acpShow({ params: { id: session } });
  expect(after).toMatchObject({ state: "ready", runId: before });
  expect(all).toMatchObject([{ outcome: "cancelled" }]);
});

test("Ctrl-C twice leaves at once, and the gateway goes on cancelling", async () => {
  const client = await resident.client();
  // Deaf: it does not answer a cancel.
  const agent = [process.execPath, new URL("../../acp/agents/misbehave.mjs", import.meta.url).pathname];
  const argv = [...agent, "ignores-cancel"];
  const deaf = await client.acpSpawn({ body: { argv, cwd: resident.home, key: "deaf" } });
  const params = { id: deaf.session.sessionId };
  const runId = await terminal({}, "prompt", "deaf", "go");
  await resident.shows(runId, "busy");
  await type(runId, "C-c");
  await resident.shows(runId, "cancelling the turn");
  await type(runId, "C-c");
  expect((await ended(runId)).exit).toMatchObject({ code: 130 });
  expect((await screen(runId)).join(" ")).toMatch(/left; the gateway goes on cancelling the turn/);
  const { turns: all } = await client.acpShow({ params });
  expect(all).toMatchObject([{ state: "running", cancel: { actor: "operator" } }]);
  await client.kill({ params: { runId: deaf.session.runId ?? "" } });
  await client.acpClose({ params });
});

test("Ctrl-C while the agent is being started closes the session, however long that would have taken", async () => {
  const runId = await terminal({}, "spawn", "--agent-command", "exec sleep 3044", "--name", "slow", "hello");
  await until("it is being started", async () => {
    const { sessions } = await (await resident.client()).acpList({});
    return sessions.some(({ key }) => key === "slow");
  });
  await type(runId, "C-c");
  expect((await ended(runId)).exit).toMatchObject({ code: 130 });
  expect((await screen(runId)).at(-1)).toBe("holdfast: slow is closed");
  const { sessions } = await (await resident.client()).acpList({});
  expect(sessions.map(({ key }) => key)).not.toContain("slow");
});
