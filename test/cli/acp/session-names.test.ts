import { afterAll, beforeAll, expect, test } from "vitest";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";
import { openScriptedSession, SCRIPTED_AGENT } from "../../support/agents/scripted-agent.js";

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

test("a session is named by its name, its id, or a beginning of either that only it has", async () => {
  const id = ids["docs"] ?? "";
  for (const name of ["docs", "do", id, id.slice(0, -2), id.slice(4)])
    expect(await acp("prompt", name, name)).toMatchObject({ code: 0, stdout: `${name}\n` });
  expect(await acp("prompt", "site", "the very name")).toMatchObject({ code: 0 });
});

test("a beginning that several have is refused with who they are", async () => {
  for (const command of [
    ["prompt", "si", "x"],
    ["cancel", "si"],
    ["close", "si"],
    ["show", "si"],
    ["watch", "si"],
  ]) {
    const { code, stdout, stderr } = await acp(...command);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(`"si" is the beginning of several ACP sessions: `);
    for (const key of ["site", "site-2"]) expect(stderr).toContain(`${key} (${ids[key]})`);
  }
  // What every id begins with is the beginning of none.
  expect((await acp("show", "ses")).stderr).not.toContain("docs");
  expect(await acp("show", "ses_")).toMatchObject({ code: 1, stdout: "" });
});

test("an open session of that name is gone on with, one of another agent is refused", async () => {
  const again = await acp("spawn", "--agent-command", SCRIPTED_AGENT, "--name", "mine", "one");
  expect(again).toMatchObject({ code: 0, stdout: "one\n" });
  const more = await acp("spawn", "--agent-command", SCRIPTED_AGENT, "--name", "mine", "two");
  expect(more).toMatchObject({ code: 0, stdout: "two\n" });
  expect(more.stderr).toContain("mine was open already");
  expect(await acp("spawn", "--agent-command", "other", "--name", "mine", "x")).toMatchObject({ code: 1 });
  expect(await acp("close", "mine")).toMatchObject({ code: 0 });
});

test("what is closed can be looked at by its name, and is spoken with no more", async () => {
  expect(await acp("history", "mine")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("> two") as string,
  });
  expect(await acp("show", "mine")).toMatchObject({ code: 0 });
  expect(await acp("prompt", "mine", "x")).toMatchObject({ code: 1, stdout: "" });
  expect((await acp("watch", "mine")).stdout).toBe("> one\n\none\n\n> two\n\ntwo\n");
  expect((await acp("watch", "mine", "--format", "quiet")).stdout).toBe("one\ntwo\n");
});

test("two sessions may each have one of the same name, and each means its own", async () => {
  const client = await shared.gatewayFixture.client();
  const execRules = [{ effect: "allow" as const }];
  const callers = await Promise.all(
    ["ada", "bob"].map(async (key) => {
      const { token } = await client.openSession({ body: { key, execRules } });
      return async (...args: readonly string[]) => {
        const env = { HOLDFAST_TOKEN: token, HOLDFAST_SESSION_KEY: key };
        const { child, finished } = shared.gatewayFixture.startWith(env, "acp", ...args);
        child.stdin.end();
        return finished;
      };
    }),
  );
  const words = ["spawn", "--agent-command", SCRIPTED_AGENT, "--name", "draft"];
  for (const caller of callers)
    expect(await caller(...words, "hello")).toMatchObject({ code: 0, stdout: "hello\n" });
  for (const caller of callers)
    expect(await caller("prompt", "draft", "again")).toMatchObject({ stdout: "again\n" });
  const ambiguous = await acp("show", "draft");
  expect(ambiguous).toMatchObject({ code: 2, stdout: "" });
  expect(ambiguous.stderr).toMatch(/"draft" is the name of several ACP sessions: \w+\/draft .*, \w+\/draft /);
  expect((await acp("history", "ada/draft")).stdout.match(/^> /gm)).toHaveLength(2);
  for (const caller of callers) expect(await caller("close", "draft")).toMatchObject({ code: 0 });
});
