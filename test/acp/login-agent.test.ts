import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { chooseMethod, terminalLogin } from "../../src/acp/login-agent.js";
import { AcpFixture, featureAgent } from "../support/agents/acp-fixture.js";
import { waitFor } from "../support/wait-for.js";

const browser = { id: "browser", name: "Browser", description: "Opens a page" };
const key = { id: "key", name: "API key" };

test("the only login is used; of several, one must be named", () => {
  expect(chooseMethod([browser], null)).toBe(browser);
  expect(chooseMethod([browser, key], "key")).toBe(key);
  expect(() => chooseMethod([browser, key], null)).toThrow("Browser (browser): Opens a page; API key (key)");
  expect(() => chooseMethod([browser, key], "x")).toThrow('no login "x", but these');
  expect(() => chooseMethod([], null)).toThrow("offers no login");
});

test("a terminal login is the agent's command with further arguments, or a command of its own", () => {
  const command = { argv: ["agent", "--acp"], env: { A: "1", B: "1" } };
  const terminal = { type: "terminal" as const, id: "t", name: "T", args: ["--login"], env: { B: "2" } };
  expect(terminalLogin(terminal, command)).toEqual({
    argv: ["agent", "--acp", "--login"],
    env: { A: "1", B: "2" },
  });
  const _meta = { "terminal-auth": { command: "agent-login", args: ["now"], env: {} } };
  expect(terminalLogin({ ...key, _meta }, command)).toEqual({
    argv: ["agent-login", "now"],
    env: command.env,
  });
  expect(terminalLogin(key, command)).toBeNull();
});

test("the agent logs in itself, and a session can be opened afterwards", async () => {
  const fixture = await AcpFixture.open();
  const file = join(fixture.home, "login");
  const argv = featureAgent(`login=${file}`);
  const command = { argv, env: {}, inherit: { PATH: process.env["PATH"] ?? "" }, passEnv: [] };
  const request = { command, cwd: fixture.home };
  await expect(fixture.acp.login({ ...request, method: "broken" })).rejects.toMatchObject({
    code: "ACP_REFUSED",
    message: expect.stringContaining("the page cannot be opened") as string,
  });
  expect(existsSync(file)).toBe(false);
  const terminal = { argv: [...argv, `login=${file}`, "--login"], env: { LOGIN_NOTE: "by terminal" } };
  expect(await fixture.acp.login({ ...request, method: "terminal" })).toMatchObject({ terminal });
  expect(await fixture.acp.login({ ...request, method: "browser" })).toEqual({
    method: { id: "browser", name: "Log in with a browser" },
    terminal: null,
  });
  expect(readFileSync(file, "utf8")).toBe("by browser");
  for (const { state, emptiness } of await fixture.supervisor.listRuns({}))
    expect({ state, emptiness }).toEqual({ state: "exited", emptiness: "proven" });
  const session = await fixture.spawn(argv);
  expect(await fixture.promptAndWait(session, "hello")).toMatchObject({ outcome: "completed" });
});

test("a login whose caller leaves ends the agent", async () => {
  const fixture = await AcpFixture.open();
  const argv = featureAgent(`login=${join(fixture.home, "login")}`, "slow");
  const command = { argv, env: {}, inherit: { PATH: process.env["PATH"] ?? "" }, passEnv: [] };
  const caller = new AbortController();
  const { signal } = caller;
  const login = fixture.acp.login({ command, cwd: fixture.home, method: "slow", signal });
  const left = login.catch((error: unknown) => error);
  await waitFor("the agent runs", async () => {
    const [run] = await fixture.supervisor.listRuns({});
    return run?.state === "running";
  });
  caller.abort();
  expect(await left).toMatchObject({ code: "ACP_CLOSED" });
  const [run] = await fixture.supervisor.listRuns({});
  expect(run).toMatchObject({ state: "exited", emptiness: "proven" });
});
