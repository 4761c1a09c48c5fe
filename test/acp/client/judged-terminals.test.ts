import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { AcpPermission } from "../../../src/store/acp-record.js";
import { Controlled } from "../controlled.js";
import { use, user, type Step } from "./using.js";

const CREATE = "terminal/create";
const REFUSED = -32_001;
const last = { terminalId: "last" };

async function prepared() {
  const house = await Controlled.open();
  const canary = join(house.home, "canary");
  const planted = join(house.home, "planted");
  const repository = join(house.home, "repository");
  await mkdir(planted);
  for (const name of ["git", "date"]) {
    await writeFile(join(planted, name), `#!/bin/sh\n/usr/bin/touch ${canary}\n`);
    await chmod(join(planted, name), 0o755);
  }
  execFileSync("git", ["init", "--quiet", repository]);
  return { house, canary, planted, repository };
}

const named = (variables: Record<string, string>) =>
  Object.entries(variables).map(([name, value]) => ({ name, value }));

function pendingQuestion(house: Controlled, session: string): Promise<AcpPermission> {
  return house.until(session, async () => {
    const [open] = await house.store.listAcpPermissions({ sessionId: session, pending: true });
    return open;
  });
}

test("a terminal under exec rules runs no program that they do not allow, whatever its variables or name", async () => {
  const { house, canary, planted, repository } = await prepared();
  const execRules = [
    { effect: "allow", executable: "git", args: ["status"] },
    { effect: "allow", executable: "date" },
    { effect: "deny" },
  ] as const;
  const session = await user(house, { terminals: true }, { session: { execRules } });
  const config = { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "core.fsmonitor" };
  const status = { command: "git", args: ["status"], cwd: repository };
  const bypasses: Step[] = [
    [CREATE, { ...status, env: named({ ...config, GIT_CONFIG_VALUE_0: `/usr/bin/touch ${canary}; false` }) }],
    [CREATE, { command: "date", env: named({ PATH: planted }) }],
    [CREATE, { command: "date", env: named({ BASH_ENV: join(planted, "date") }) }],
    [CREATE, { command: "./date", cwd: planted }],
    [CREATE, { command: join(planted, "date") }],
  ];
  const answers = await use(house, session, ...bypasses);
  expect(answers.map(({ code }) => code)).toEqual(bypasses.map(() => REFUSED));
  expect(answers[0]).toMatchObject({
    message: expect.stringContaining("GIT_CONFIG_COUNT, GIT_CONFIG_KEY_0, GIT_CONFIG_VALUE_0") as string,
  });
  expect(existsSync(canary)).toBe(false);
  const allowed = await use(
    house,
    session,
    [CREATE, { command: "date", args: ["+%Z"], cwd: planted, env: named({ TZ: "UTC", LC_ALL: "C" }) }],
    ["terminal/wait_for_exit", last],
    ["terminal/output", last],
  );
  expect(allowed[2]).toMatchObject({ output: "UTC\n" });
  const runs = await house.supervisor.listRuns({ sessionId: session });
  const terminals = runs.filter(({ backendId }) => backendId === "acp-terminal");
  expect(terminals.map(({ command }) => command)).toEqual(["/usr/bin/date +%Z"]);
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});

test("a variable that is not listed is named in the question, and passes when that is allowed", async () => {
  const { house } = await prepared();
  const execRules = [{ effect: "ask", executable: "env" }, { effect: "deny" }] as const;
  const session = await user(house, { terminals: true }, { session: { execRules } });
  const steps: Step[] = [
    [CREATE, { command: "env", env: named({ UNLISTED: "one" }) }],
    ["terminal/wait_for_exit", last],
    ["terminal/output", last],
  ];
  const turn = await house.ask(session, JSON.stringify(steps));
  const question = await pendingQuestion(house, session);
  expect(question.title).toBe("UNLISTED=one /usr/bin/env");
  const parts = [...((await house.acp.questionOf(question))?.parts() ?? [])];
  expect(parts).toMatchObject([
    { label: "program", text: "/usr/bin/env" },
    { label: "argv[0]", text: "/usr/bin/env" },
    { label: "cwd" },
    { label: "env UNLISTED", text: "one", note: "not in the session's list of allowed variables" },
  ]);
  expect(await house.allow(question.id, "ada")).toBe(true);
  expect((await house.ended(turn)).text).toContain("UNLISTED=one");
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});

test("where exec rules allow everything, a question names the program that the agent's own PATH leads to", async () => {
  const { house, canary, planted } = await prepared();
  const rules = [{ effect: "ask" }] as const;
  const execRules = [{ effect: "allow" }] as const;
  const session = await user(house, { terminals: true }, { rules, session: { execRules } });
  const turn = await house.ask(
    session,
    JSON.stringify([[CREATE, { command: "date", env: named({ PATH: planted }) }]]),
  );
  const question = await pendingQuestion(house, session);
  const [program] = (await house.acp.questionOf(question))?.parts() ?? [];
  expect(program).toMatchObject({ label: "program", text: join(planted, "date") });
  await house.acp.answerPermission(question.id, "deny", "ada");
  await house.ended(turn);
  expect(existsSync(canary)).toBe(false);
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});

test("a question names the directory in which the command is executed", async () => {
  const { house, planted, repository } = await prepared();
  await symlink(repository, join(planted, "link"));
  const execRules = [{ effect: "ask" }] as const;
  const session = await user(house, { terminals: true }, { session: { execRules } });
  const steps: Step[] = [
    [CREATE, { command: "pwd", cwd: `${planted}/link/..` }],
    ["terminal/wait_for_exit", last],
    ["terminal/output", last],
  ];
  const turn = await house.ask(session, JSON.stringify(steps));
  const question = await pendingQuestion(house, session);
  const parts = [...((await house.acp.questionOf(question))?.parts() ?? [])];
  expect(parts).toMatchObject([{}, {}, { label: "cwd", text: planted }]);
  expect(await house.allow(question.id, "ada")).toBe(true);
  expect((await house.ended(turn)).text).toContain(`${planted}\\n`);
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});

test("an agent without an environment of its own, and its terminals, get no secrets of the gateway", async () => {
  process.env["GATEWAYS_OWN"] = "hush-own";
  onTestFinished(() => void delete process.env["GATEWAYS_OWN"]);
  const house = await Controlled.open();
  const session = await user(house, { terminals: true }, { environment: undefined });
  const answers = await use(
    house,
    session,
    [CREATE, { command: "env" }],
    ["terminal/wait_for_exit", last],
    ["terminal/output", last],
  );
  expect(answers[2]?.["output"]).toContain(`PATH=${process.env["PATH"]}`);
  expect(answers[2]?.["output"]).not.toContain("hush-own");
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});
