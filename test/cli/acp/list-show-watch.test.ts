import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ResponseOf } from "../../../src/api/contract.js";
import { openScriptedSession, SCRIPTED_AGENT, scriptedPrompt } from "../../support/agents/scripted-agent.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";
import { waitFor } from "../../support/wait-for.js";

const shared = gatewayAndCliForFile();
const acp = (...args: readonly string[]) => shared.batchCli.holdfast("acp", ...args);
const ids: Record<string, string> = {};

beforeAll(async () => {
  for (const key of ["site", "site-2", "docs"])
    ids[key] = await openScriptedSession(shared.gatewayFixture, key);
});
afterAll(async () => {
  for (const key of Object.keys(ids)) await acp("close", key);
});

test("a session is given by its name, its id, or an unambiguous beginning of either", async () => {
  const id = ids["docs"] ?? "";
  for (const name of ["docs", "do", id, id.slice(0, -2), id.slice(4)])
    expect(await acp("prompt", name, name)).toMatchObject({ code: 0, stdout: `${name}\n` });
  // A whole name is not ambiguous, even if another name begins with it.
  expect(await acp("prompt", "site", "x")).toMatchObject({ code: 0 });
});

test("an ambiguous beginning is refused with the names of the sessions", async () => {
  for (const command of [
    ["prompt", "si", "x"],
    ["cancel", "si"],
    ["close", "si"],
    ["watch", "si"],
  ]) {
    const { code, stdout, stderr } = await acp(...command);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(`"si" is the beginning of the keys or ids of several sessions: `);
    for (const key of ["site", "site-2"]) expect(stderr).toContain(`${key} (${ids[key]})`);
  }
  // The prefix of all ids is no beginning of an id.
  expect(await acp("show", "ses_")).toMatchObject({ code: 1, stdout: "" });
});

test("spawn continues the open session with that name; a closed one can only be read", async () => {
  const spawn = (agent: string, prompt: string) =>
    acp("spawn", "--agent-command", agent, "--name", "mine", prompt);
  expect(await spawn(SCRIPTED_AGENT, "one")).toMatchObject({ code: 0, stdout: "one\n" });
  const more = await spawn(SCRIPTED_AGENT, "two");
  expect(more).toMatchObject({ code: 0, stdout: "two\n" });
  expect(more.stderr).toContain("mine is already open");
  expect(await spawn("other", "x")).toMatchObject({ code: 1 });
  expect(await acp("close", "mine")).toMatchObject({ code: 0 });
  expect((await acp("history", "mine")).stdout).toContain("> two");
  expect(await acp("show", "mine")).toMatchObject({ code: 0 });
  expect(await acp("prompt", "mine", "x")).toMatchObject({ code: 1, stdout: "" });
  expect((await acp("watch", "mine")).stdout).toBe("> one\n\none\n\n> two\n\ntwo\n");
  expect((await acp("watch", "mine", "--format", "quiet")).stdout).toBe("one\ntwo\n");
});

test("two owners may each have a session with the same name, and each addresses its own", async () => {
  const client = await shared.gatewayFixture.client();
  const execRules = [{ effect: "allow" as const }];
  const callers = await Promise.all(
    ["ada", "bob"].map(async (key) => {
      const { token } = await client.openSession({ body: { key, execRules } });
      return async (...args: readonly string[]) => {
        const env = { HOLDFAST_TOKEN: token, HOLDFAST_SESSION_KEY: key };
        return shared.batchCli.holdfastWith(env, "acp", ...args);
      };
    }),
  );
  const words = ["spawn", "--agent-command", SCRIPTED_AGENT, "--name", "draft"];
  for (const caller of callers) {
    expect(await caller(...words, "hello")).toMatchObject({ code: 0, stdout: "hello\n" });
    expect(await caller("prompt", "draft", "again")).toMatchObject({ stdout: "again\n" });
  }
  const ambiguous = await acp("show", "draft");
  expect(ambiguous).toMatchObject({ code: 2, stdout: "" });
  expect(ambiguous.stderr).toMatch(
    /"draft" is the last part of the keys of several sessions: \w+\/draft .*, \w+\/draft /,
  );
  expect((await acp("history", "ada/draft")).stdout.match(/^> /gm)).toHaveLength(2);
  for (const caller of callers) expect(await caller("close", "draft")).toMatchObject({ code: 0 });
});

test("status and history show turns, messages and whether a message was delivered", async () => {
  const sessions = (...args: readonly string[]) => shared.batchCli.holdfast("sessions", ...args);
  const id = await openScriptedSession(shared.gatewayFixture, "messages");
  const client = await shared.gatewayFixture.client();
  await client.acpPrompt({ params: { id }, body: { text: scriptedPrompt({ say: "fine\u001b[2J" }) } });
  const noted = await sessions("send", "messages", "--deliver", "next-turn", "--json", "know\u001b[2J this");
  expect(JSON.parse(noted.stdout)).toMatchObject({ deliver: "next-turn", turnId: null, deliveredAt: null });
  const status = (await sessions("status", "messages")).stdout;
  expect(status).toMatch(/^state +idle$[^]*^messages +1, 1 waiting, the last .*\nacp +ready, mode session$/m);
  const before = (await sessions("history", "messages")).stdout;
  expect(before).toMatch(/^#1 \S+ operator, completed after /m);
  expect(before).toMatch(/^#2 user, operator, \S+ \(waits for the next turn\)\nknow.* this$/m);
  await sessions("send", "messages", "go on");
  await waitFor("both messages are delivered", async () => {
    const { state, messages } = await client.sessionStatus({ params: { id } });
    return state === "idle" && messages.pending === 0;
  });
  const { stdout } = await sessions("history", "messages");
  expect(stdout).toMatch(/^#2 user, operator, \S+ \(delivered with #3\)$/m);
  expect(stdout).toMatch(/^#3 \S+ operator, completed after .*\n> Message from the operator:\n> > go on$/m);
  expect(stdout).not.toContain("\u001b[2J");
  expect((await sessions("history", "messages", "--limit", "1")).stderr).toContain("--before 3");
  const page = await sessions("history", "messages", "--before", "3", "--json");
  expect(JSON.parse(page.stdout)).toMatchObject({
    messages: [{ seq: 2 }],
    turns: [{ place: 1, outcome: "completed" }],
    runs: [],
  });
});

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
/** The protocol's own example agent. */
const EXAMPLE = `'${process.execPath}' --import '${at("../../support/agents/programs/fast-timers.mjs")}' '${at("../../../node_modules/acp-sdk-1/dist/examples/agent.js")}'`;

test("spawn starts a gateway; reading starts none and shows the same from the store", async () => {
  await using gatewayFixture = await BackgroundGateway.open();
  expect(await gatewayFixture.holdfast("acp", "list")).toMatchObject({ code: 0, stdout: "" });
  expect(await gatewayFixture.processes()).toEqual([]);
  const words = ["--agent-command", EXAMPLE, "--name", "example", "--approve-all"];
  const spawned = await gatewayFixture.holdfast("acp", "spawn", ...words, "hello");
  expect(spawned.stderr).toContain("started a gateway in the background");
  expect(spawned.code).toBe(0);
  expect(spawned.stdout).toMatch(
    /^I'll help you.*\n\n· read: Reading project files .*have been applied\.\n$/s,
  );
  const read = async (): Promise<string[]> => {
    const commands = [["history"], ["show", "--json"], ["watch", "--json"]];
    const answers = commands.map(([verb = "", ...flags]) =>
      gatewayFixture.holdfast("acp", verb, "example", ...flags),
    );
    // Only a gateway can inspect the processes.
    return (await Promise.all(answers)).map(({ stdout }) => stdout.replace(/"tree": \{[^}]*\}/s, ""));
  };
  const closed = await gatewayFixture.holdfast("acp", "close", "example");
  expect(closed.stdout).toMatch(/^example \(ses_\w+\) is closed; none of its processes is left\n$/);
  const before = await read();
  expect(before.every((text) => text.length > 100)).toBe(true);
  await gatewayFixture.stop();
  expect(await read()).toEqual(before);
  expect(await gatewayFixture.processes()).toEqual([]);
});

test("without a gateway, a session whose agent is dead is not shown as ready", async () => {
  await using gatewayFixture = await BackgroundGateway.started();
  await openScriptedSession(gatewayFixture, "dead");
  const show = async () => {
    const { stdout } = await gatewayFixture.holdfast("acp", "show", "dead", "--json");
    return JSON.parse(stdout) as ResponseOf<"acpShow">;
  };
  const { session, tree } = await show();
  expect(session.state).toBe("ready");
  const { pid } = await gatewayFixture.status();
  // oxlint-disable-next-line no-restricted-properties -- its own gateway
  process.kill(pid, "SIGKILL");
  // oxlint-disable-next-line no-restricted-properties -- its own agent
  for (const each of tree.processes) process.kill(each.pid, "SIGKILL");
  await waitFor("it is down", async () => (await show()).session.state === "down");
  expect((await gatewayFixture.holdfast("acp", "show", "dead")).stdout).toContain(
    "the agent's process has ended",
  );
  await gatewayFixture.holdfast("gateway", "start");
  await gatewayFixture.holdfast("acp", "close", "dead");
});
