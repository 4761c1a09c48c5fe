import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { AcpPermissionRequest } from "../../../src/model/acp.js";
import { AcpFixture } from "../../support/agents/acp-fixture.js";
import { runSteps, spawnClientAgent, type ClientStep } from "../../support/agents/client-agent.js";

const CREATE = "terminal/create";
const REFUSED = -32_001;
const last = { terminalId: "last" };

async function prepared() {
  const fixture = await AcpFixture.open();
  const canary = join(fixture.home, "canary");
  const planted = join(fixture.home, "planted");
  const repository = join(fixture.home, "repository");
  await mkdir(planted);
  for (const name of ["git", "date"]) {
    await writeFile(join(planted, name), `#!/bin/sh\n/usr/bin/touch ${canary}\n`);
    await chmod(join(planted, name), 0o755);
  }
  execFileSync("git", ["init", "--quiet", repository]);
  return { house: fixture, canary, planted, repository };
}

const named = (variables: Record<string, string>) =>
  Object.entries(variables).map(([name, value]) => ({ name, value }));

function pendingQuestion(fixture: AcpFixture, session: string): Promise<AcpPermissionRequest> {
  return fixture.waitFor(session, async () => {
    const [open] = await fixture.store.listAcpPermissionRequests({ sessionId: session, pending: true });
    return open;
  });
}

test("a terminal runs only programs that the exec rules allow", async () => {
  const { house: fixture, canary, planted, repository } = await prepared();
  const execRules = [
    { effect: "allow", executable: "git", args: ["status"] },
    { effect: "allow", executable: "date" },
    { effect: "deny" },
  ] as const;
  const session = await spawnClientAgent(fixture, { terminals: true }, { session: { execRules } });
  const config = { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "core.fsmonitor" };
  const status = { command: "git", args: ["status"], cwd: repository };
  const bypasses: ClientStep[] = [
    [CREATE, { ...status, env: named({ ...config, GIT_CONFIG_VALUE_0: `/usr/bin/touch ${canary}; false` }) }],
    [CREATE, { command: "date", env: named({ PATH: planted }) }],
    [CREATE, { command: "date", env: named({ BASH_ENV: join(planted, "date") }) }],
    [CREATE, { command: "./date", cwd: planted }],
    [CREATE, { command: join(planted, "date") }],
  ];
  const answers = await runSteps(fixture, session, ...bypasses);
  expect(answers.map(({ code }) => code)).toEqual(bypasses.map(() => REFUSED));
  expect(answers[0]).toMatchObject({
    message: expect.stringContaining("GIT_CONFIG_COUNT, GIT_CONFIG_KEY_0, GIT_CONFIG_VALUE_0") as string,
  });
  expect(existsSync(canary)).toBe(false);
  const allowed = await runSteps(
    fixture,
    session,
    [CREATE, { command: "date", args: ["+%Z"], cwd: planted, env: named({ TZ: "UTC", LC_ALL: "C" }) }],
    ["terminal/wait_for_exit", last],
    ["terminal/output", last],
  );
  expect(allowed[2]).toMatchObject({ output: "UTC\n" });
  const runs = await fixture.supervisor.listRuns({ sessionId: session });
  const terminals = runs.filter(({ backendId }) => backendId === "acp-terminal");
  expect(terminals.map(({ command }) => command)).toEqual(["/usr/bin/date +%Z"]);
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("the question names an unlisted variable, which is passed if the question is allowed", async () => {
  const { house: fixture } = await prepared();
  const execRules = [{ effect: "ask", executable: "env" }, { effect: "deny" }] as const;
  const session = await spawnClientAgent(fixture, { terminals: true }, { session: { execRules } });
  const steps: ClientStep[] = [
    [CREATE, { command: "env", env: named({ UNLISTED: "one" }) }],
    ["terminal/wait_for_exit", last],
    ["terminal/output", last],
  ];
  const turn = await fixture.prompt(session, JSON.stringify(steps));
  const question = await pendingQuestion(fixture, session);
  expect(question.title).toBe("UNLISTED=one /usr/bin/env");
  const parts = [...((await fixture.acp.questionOf(question))?.parts() ?? [])];
  expect(parts).toMatchObject([
    { label: "program", text: "/usr/bin/env" },
    { label: "argv[0]", text: "/usr/bin/env" },
    { label: "cwd" },
    { label: "env UNLISTED", text: "one", note: "not in the session's list of allowed variables" },
  ]);
  expect(await fixture.allowPermission(question.id, "ada")).toBe(true);
  expect((await fixture.waitForTurnEnd(turn)).text).toContain("UNLISTED=one");
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("under exec rules that allow everything, the question names the program in the agent's PATH", async () => {
  const { house: fixture, canary, planted } = await prepared();
  const rules = [{ effect: "ask" }] as const;
  const execRules = [{ effect: "allow" }] as const;
  const session = await spawnClientAgent(fixture, { terminals: true }, { rules, session: { execRules } });
  const turn = await fixture.prompt(
    session,
    JSON.stringify([[CREATE, { command: "date", env: named({ PATH: planted }) }]]),
  );
  const question = await pendingQuestion(fixture, session);
  const [program] = (await fixture.acp.questionOf(question))?.parts() ?? [];
  expect(program).toMatchObject({ label: "program", text: join(planted, "date") });
  await fixture.acp.answerPermission(question.id, "deny", "ada");
  await fixture.waitForTurnEnd(turn);
  expect(existsSync(canary)).toBe(false);
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("the question names the working directory of the command", async () => {
  const { house: fixture, planted, repository } = await prepared();
  await symlink(repository, join(planted, "link"));
  const execRules = [{ effect: "ask" }] as const;
  const session = await spawnClientAgent(fixture, { terminals: true }, { session: { execRules } });
  const steps: ClientStep[] = [
    [CREATE, { command: "pwd", cwd: `${planted}/link/..` }],
    ["terminal/wait_for_exit", last],
    ["terminal/output", last],
  ];
  const turn = await fixture.prompt(session, JSON.stringify(steps));
  const question = await pendingQuestion(fixture, session);
  const parts = [...((await fixture.acp.questionOf(question))?.parts() ?? [])];
  expect(parts).toMatchObject([{}, {}, { label: "cwd", text: planted }]);
  expect(await fixture.allowPermission(question.id, "ada")).toBe(true);
  expect((await fixture.waitForTurnEnd(turn)).text).toContain(`${planted}\\n`);
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("an agent without an environment of its own, and its terminals, get no secrets of the gateway", async () => {
  process.env["GATEWAYS_OWN"] = "hush-own";
  onTestFinished(() => void delete process.env["GATEWAYS_OWN"]);
  const fixture = await AcpFixture.open();
  const session = await spawnClientAgent(fixture, { terminals: true }, { environment: undefined });
  const answers = await runSteps(
    fixture,
    session,
    [CREATE, { command: "env" }],
    ["terminal/wait_for_exit", last],
    ["terminal/output", last],
  );
  expect(answers[2]?.["output"]).toContain(`PATH=${process.env["PATH"]}`);
  expect(answers[2]?.["output"]).not.toContain("hush-own");
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});
