import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";

const shared = gatewayAndCliForFile();
const acp = (...args: readonly string[]) => shared.batchCli.holdfast("acp", ...args);
const program = fileURLToPath(new URL("../../support/agents/programs/settable-agent.mjs", import.meta.url));
const agent = ["--agent-command", `'${process.execPath}' '${program}'`];

test("spawn and set choose model, mode and options, and show lists what the agent offers", async () => {
  const spawned = await acp(
    ...["spawn", ...agent, "--name", "lib", "--model", "Large", "--mode", "plan", "--mode", "session"],
    ...["--option", "effort=high", "report"],
  );
  expect(spawned).toMatchObject({ code: 0 });
  expect(JSON.parse(spawned.stdout)).toMatchObject({ model: "large", mode: "plan", effort: "high" });

  expect(await acp("set", "lib", "--mode", "code", "--option", "web=on")).toMatchObject({
    code: 0,
    stdout:
      "model          large (or small)\nagent mode     code (or ask, plan)\noption effort  high (or low)\noption web     true (or false)\n",
  });
  const { stdout } = await acp("show", "lib");
  expect(stdout).toContain("\nmodel          large (or small)\n");
  expect(stdout).toContain("\ncontext        1200 of 200000 tokens (1 %), 0.25 USD\n");
  expect(stdout).toContain("\ncommand        /plan <what>  does plan\n");
  expect(JSON.parse((await acp("show", "lib", "--json")).stdout)).toMatchObject({
    settings: { model: "Large", mode: "code", options: { effort: "high", web: "on" } },
    session: { mode: "session" },
  });
  expect((await acp("close", "lib")).code).toBe(0);
});

test("what the agent does not offer is refused by name, and nothing is set", async () => {
  const wrong = await acp("spawn", ...agent, "--name", "wrong", "--model", "huge", "hello");
  expect(wrong).toMatchObject({ code: 2, stdout: "" });
  expect(wrong.stderr).toContain('the agent does not offer --model "huge": it offers small, large');
  expect((await acp("list")).stdout).not.toContain("wrong");

  expect((await acp("spawn", ...agent, "--name", "right")).code).toBe(0);
  for (const [args, why] of [
    [["--option", "colour=red"], 'config option "colour": it offers model, mode, effort, web'],
    [["--option", "web=maybe"], "--option web is true or false"],
    [["--mode", "run"], '--mode "run": it offers ask, code, plan'],
    [[], "give --model, --mode or --option"],
  ] as const) {
    const { code, stderr } = await acp("set", "right", ...args);
    expect(code).toBe(2);
    expect(stderr).toContain(why);
  }
  expect((await acp("set", "nobody", "--model", "x")).code).toBe(1);
  expect((await acp("close", "right")).code).toBe(0);
});

test("models, modes and options of the named session are completed", async () => {
  expect((await acp("spawn", ...agent, "--name", "words")).code).toBe(0);
  const complete = async (kind: string, ...words: readonly string[]) =>
    (await shared.batchCli.holdfast("__complete", kind, "--", "acp", "set", ...words)).stdout;
  expect(await complete("model", "words", "--model")).toBe("small\nlarge\n");
  expect(await complete("mode", "words", "--mode")).toBe("ask\ncode\nplan\n");
  expect(await complete("option", "words", "--option")).toContain("effort=low\nweb=true\nweb=false\n");
  expect((await acp("close", "words")).code).toBe(0);
});

test("a session changes the settings of its children, and not its own", async () => {
  const { gatewayFixture } = shared;
  const client = await gatewayFixture.client();
  const body = { argv: [process.execPath, program], cwd: gatewayFixture.home };
  const { session } = await client.acpSpawn({ body: { ...body, key: "above" } });
  await client.acpSpawn({ body: { ...body, key: "below", parentSessionKey: "above" } });
  const { token } = await client.rotateToken({ params: { id: session.sessionId }, body: {} });
  const setAsSession = (name: string) => {
    const env = { HOLDFAST_TOKEN: token, HOLDFAST_SESSION_KEY: "above" };
    const { child, finished } = gatewayFixture.startWith(env, "acp", "set", name, "--mode", "plan");
    child.stdin.end();
    return finished;
  };
  expect(await setAsSession("below")).toMatchObject({ code: 0 });
  const own = await setAsSession("above");
  expect(own).toMatchObject({ code: 1, stdout: "" });
  expect(own.stderr).toContain("only the operator may change the settings");
  for (const id of ["below", "above"]) await client.acpClose({ params: { id } });
});

test("agent-sessions lists what the agent stored, and spawn continues it", async () => {
  const env = { AGENT_SESSIONS: `${shared.gatewayFixture.home}/own` };
  const run = (...args: readonly string[]) => {
    const { child, finished } = shared.gatewayFixture.startWith(env, "acp", ...args);
    child.stdin.end();
    return finished;
  };
  expect((await run("agent-sessions", ...agent)).stderr).toContain("the agent has no sessions");
  expect((await run("spawn", ...agent, "--name", "made", "--mode", "run", "hello")).code).toBe(0);
  const listed = await run("agent-sessions", ...agent, "--json");
  const [stored] = JSON.parse(listed.stdout) as { readonly sessionId: string; readonly title: string }[];
  expect(stored).toMatchObject({ title: "hello" });
  const resume = ["--resume", stored?.sessionId ?? "", "--mode", "run", "more"];
  const resumed = await run("spawn", ...agent, ...resume);
  expect(JSON.parse(resumed.stdout)).toMatchObject({ turns: 2 });
  expect(await run("spawn", ...agent, "--fork", "x")).toMatchObject({ code: 2 });
  expect(await run("agent-sessions")).toMatchObject({ code: 2 });
});
