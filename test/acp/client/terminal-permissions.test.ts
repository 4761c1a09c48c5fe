import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import type { PermissionRule } from "../../../src/model/acp/permission-rule.js";
import type { ExecRule } from "../../../src/model/exec/exec-rule.js";
import { questionLines } from "../../../src/sessions/paginate-question.js";
import { AcpFixture } from "../../support/agents/acp-fixture.js";
import {
  ALLOW_ALL_RULES,
  answersOf,
  type ClientStep,
  promptSteps,
  runSteps,
  spawnClientAgent,
} from "../../support/agents/client-agent.js";
import { waitFor } from "../../support/wait-for.js";

const CREATE = "terminal/create";
const WAIT = "terminal/wait_for_exit";
const last = { terminalId: "last" };
const REFUSED = -32_001;
const shell = (command: string): object => ({ command: "sh", args: ["-c", command] });
const variables = (env: Record<string, string>) =>
  Object.entries(env).map(([name, value]) => ({ name, value }));
const withOutput = (create: object): ClientStep[] => [
  [CREATE, create],
  [WAIT, last],
  ["terminal/output", last],
];

/** An agent with exec rules, and a directory with programs that leave a trace if they are executed. */
async function openWithRules(
  execRules: readonly ExecRule[],
  rules: readonly PermissionRule[] = ALLOW_ALL_RULES,
) {
  const fixture = await AcpFixture.open();
  const trace = join(fixture.home, "trace");
  const planted = join(fixture.home, "planted");
  await mkdir(planted);
  for (const name of ["git", "date"])
    await writeFile(join(planted, name), `#!/bin/sh\n/usr/bin/touch ${trace}\n`, { mode: 0o755 });
  const session = await spawnClientAgent(fixture, { terminals: true }, { rules, session: { execRules } });
  return { fixture, session, trace, planted };
}

/** Sends the steps, and waits for the question about one of them. */
async function ask(fixture: AcpFixture, session: string, ...steps: readonly ClientStep[]) {
  const turn = await promptSteps(fixture, session, ...steps);
  const permission = await fixture.pendingPermission(session);
  const question = await fixture.acp.questionOf(permission);
  const parts = [...(question?.parts() ?? [])];
  const deny = async (): Promise<void> => {
    await fixture.acp.answerPermission(permission.id, "deny", "ada");
    await fixture.waitForTurnEnd(turn);
  };
  const text = questionLines(parts).join("\n");
  return { turn, id: permission.id, title: permission.title, parts, text, whole: question?.whole, deny };
}

test("a terminal runs only programs that the exec rules allow", async () => {
  const { fixture, session, trace, planted } = await openWithRules([
    { effect: "allow", executable: "git", args: ["status"] },
    { effect: "allow", executable: "date" },
    { effect: "deny" },
  ]);
  const repository = join(fixture.home, "repository");
  execFileSync("git", ["init", "--quiet", repository]);
  const gitConfig = {
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "core.fsmonitor",
    GIT_CONFIG_VALUE_0: `/usr/bin/touch ${trace}; false`,
  };
  const bypasses = [
    { command: "git", args: ["status"], cwd: repository, env: variables(gitConfig) },
    { command: "date", env: variables({ PATH: planted }) },
    { command: "date", env: variables({ BASH_ENV: join(planted, "date") }) },
    { command: "./date", cwd: planted },
    { command: join(planted, "date") },
  ];
  const steps = bypasses.map((create): ClientStep => [CREATE, create]);
  const answers = await runSteps(fixture, session, ...steps);
  expect(answers.map(({ code }) => code)).toEqual(bypasses.map(() => REFUSED));
  expect(answers[0]?.["message"]).toContain(Object.keys(gitConfig).join(", "));
  expect(existsSync(trace)).toBe(false);
  const env = variables({ TZ: "UTC", LC_ALL: "C" });
  const date = withOutput({ command: "date", args: ["+%Z"], cwd: planted, env });
  expect((await runSteps(fixture, session, ...date))[2]).toMatchObject({ output: "UTC\n" });
  const runs = await fixture.supervisor.listRuns({ sessionId: session });
  const terminals = runs.filter(({ backendId }) => backendId === "acp-terminal");
  expect(terminals.map(({ command }) => command)).toEqual(["/usr/bin/date +%Z"]);
});

test("the question names an unlisted variable, which is passed if the question is allowed", async () => {
  const { fixture, session } = await openWithRules([
    { effect: "ask", executable: "env" },
    { effect: "deny" },
  ]);
  const steps = withOutput({ command: "env", env: variables({ UNLISTED: "one" }) });
  const { turn, id, title, parts } = await ask(fixture, session, ...steps);
  expect(title).toBe("UNLISTED=one /usr/bin/env");
  expect(parts).toMatchObject([
    { label: "program", text: "/usr/bin/env" },
    { label: "argv[0]", text: "/usr/bin/env" },
    { label: "cwd" },
    { label: "env UNLISTED", text: "one", note: "not in the session's list of allowed variables" },
  ]);
  expect(await fixture.allowPermission(id)).toBe(true);
  expect((await fixture.waitForTurnEnd(turn)).text).toContain("UNLISTED=one");
});

test("under exec rules that allow everything, the question names the program in the agent's PATH", async () => {
  const { fixture, session, trace, planted } = await openWithRules(
    [{ effect: "allow" }],
    [{ effect: "ask" }],
  );
  const create = { command: "date", env: variables({ PATH: planted }) };
  const { parts, deny } = await ask(fixture, session, [CREATE, create]);
  expect(parts[0]).toMatchObject({ label: "program", text: join(planted, "date") });
  await deny();
  expect(existsSync(trace)).toBe(false);
});

test("the question names the working directory of the command", async () => {
  const { fixture, session, planted } = await openWithRules([{ effect: "ask" }]);
  await symlink("/tmp", join(planted, "link"));
  const steps = withOutput({ command: "pwd", cwd: `${planted}/link/..` });
  const { turn, id, parts } = await ask(fixture, session, ...steps);
  expect(parts).toMatchObject([{}, {}, { label: "cwd", text: planted }]);
  expect(await fixture.allowPermission(id)).toBe(true);
  expect((await fixture.waitForTurnEnd(turn)).text).toContain(`${planted}\\n`);
});

test("an agent without an environment of its own, and its terminals, get no secrets of the gateway", async () => {
  vi.stubEnv("GATEWAYS_OWN", "hush-own");
  const fixture = await AcpFixture.open();
  const session = await spawnClientAgent(fixture, { terminals: true }, { environment: undefined });
  const answers = await runSteps(fixture, session, ...withOutput({ command: "env" }));
  expect(answers[2]?.["output"]).toContain(`PATH=${process.env["PATH"]}`);
  expect(answers[2]?.["output"]).not.toContain("hush-own");
});

test("commands are judged by permission rules and exec rules, and the stricter decides", async () => {
  const { fixture, session } = await openWithRules(
    [{ effect: "deny", executable: "sleep" }, { effect: "ask", executable: "touch" }, { effect: "allow" }],
    [
      { effect: "reject", kind: "execute", title: "sh *" },
      { effect: "allow", kind: "execute" },
    ],
  );
  const answers = await runSteps(
    fixture,
    session,
    [CREATE, shell("true")],
    [CREATE, { command: "sleep", args: ["3106"] }],
    [CREATE, { command: "true" }],
  );
  expect(answers).toMatchObject([
    { code: REFUSED, message: "it is not allowed: rule 1" },
    { code: REFUSED, message: "it is not allowed: rule 1 of the session's exec rules" },
    { terminalId: expect.any(String) as string },
  ]);
  const marker = join(fixture.home, "marker");
  const command = { command: "touch", args: [marker] };
  const turn = await promptSteps(
    fixture,
    session,
    [CREATE, command, "unawaited"],
    [CREATE, { ...command, env: variables({ API_TOKEN: "hush-hush" }) }, "unawaited"],
    [WAIT, last],
    [CREATE, command],
  );
  const pending = { sessionId: session, pending: true };
  await fixture.waitFor(
    session,
    async () => (await fixture.store.listAcpPermissionRequests(pending)).length === 3,
  );
  expect(existsSync(marker)).toBe(false);
  const second = await fixture.restart();
  const stored = await second.store.listAcpUpdates({ sessionId: session });
  // The prompt itself contains it.
  expect(JSON.stringify(stored.filter(({ type }) => type !== "turn"))).not.toContain("hush-hush");
  // The agent waits for the last one only, so the turn ends with it.
  for (const { id } of await second.store.listAcpPermissionRequests(pending)) {
    expect(await second.allowPermission(id)).toBe(true);
    await second.waitFor(
      session,
      async () => (await second.store.getAcpPermissionRequest(id))?.answered === true,
    );
  }
  const after = await answersOf(second, turn);
  expect(after).toHaveLength(4);
  // The environment is never stored, and without it the command is not the one that was allowed.
  const refused = after.filter(({ code }) => code === REFUSED);
  expect(refused).toMatchObject([{ message: expect.stringContaining("ask again") as string }]);
  await waitFor("an allowed command was executed", () => existsSync(marker));
});

test("rules match the whole command, and people see it redacted", async () => {
  const fixture = await AcpFixture.open();
  const rules = [
    { effect: "reject", kind: "execute", title: "*never*" },
    { effect: "ask", kind: "execute", title: "*asked*" },
    { effect: "allow", kind: "execute" },
  ] as const;
  const session = await spawnClientAgent(fixture, { terminals: true }, { rules });
  const long = ": a harmless beginning; ".repeat(40);
  const answers = await runSteps(
    fixture,
    session,
    [CREATE, shell(`${long} never`)],
    [CREATE, shell('API_KEY="$(never)"; true')],
    [CREATE, { command: "true", env: variables({ API_KEY: "never" }) }],
    [CREATE, shell("x".repeat(1024 * 1024))],
  );
  expect(answers.map(({ code }) => code)).toEqual([REFUSED, REFUSED, REFUSED, -32_602]);
  const hidden = `API_KEY=hush-hush; ${long} asked`;
  const { turn, id, title, text } = await ask(fixture, session, [CREATE, shell(hidden)]);
  expect(title).toBe(`sh -c '${hidden.replace("hush-hush", "***")}'`);
  expect(text).toContain(hidden);
  const allowed = fixture.acp.answerPermission(id, "allow", "ada");
  await expect(allowed).rejects.toThrow("does not show the whole");
  expect(await fixture.allowPermission(id)).toBe(true);
  expect(await answersOf(fixture, turn)).toMatchObject([{ terminalId: expect.any(String) as string }]);
});

test("only the parameters of waiting requests are stored, and requests per turn are bounded", async () => {
  const fixture = await AcpFixture.open({ permissionRequestsPerTurn: 8 });
  const path = join(fixture.home, "asked");
  const rules = [{ effect: "ask", kind: "edit" }, ...ALLOW_ALL_RULES] as const;
  const session = await spawnClientAgent(fixture, { terminals: true, files: "read-write" }, { rules });
  const junk = "x".repeat(100_000);
  const { turn, id } = await ask(
    fixture,
    session,
    [CREATE, { command: "true" }],
    [WAIT, { ...last, junk }],
    ["terminal/release", { ...last, junk }],
    ["fs/write_text_file", { path, content: "kept", junk }],
  );
  const stored = JSON.stringify(await fixture.store.listAcpUpdates({ sessionId: session, type: "client" }));
  expect(stored).toContain("kept");
  expect(stored.length).toBeLessThan(junk.length);
  const second = await fixture.restart({ permissionRequestsPerTurn: 8 });
  expect(await second.allowPermission(id)).toBe(true);
  expect((await answersOf(second, turn))[3]).toEqual({});
  for (const step of [["fs/read_text_file", { path }] as const, [WAIT, { terminalId: "none" }] as const]) {
    const flood = await promptSteps(second, session, ...Array.from({ length: 9 }, () => step));
    expect(await answersOf(second, flood)).toHaveLength(8);
    const closed = { outcome: "failed", problem: { code: "ACP_CLOSED" } };
    expect(await second.waitForTurnEnd(flood)).toMatchObject(closed);
  }
});

test("a question shows the code behind a header or in a variable, and only that command is executed", async () => {
  const fixture = await AcpFixture.open();
  const rules = [{ effect: "ask", kind: "execute" }] as const;
  const session = await spawnClientAgent(fixture, { terminals: true }, { rules });
  const askAbout = (create: object) => ask(fixture, session, [CREATE, create]);
  const cookie = await askAbout(shell("echo Cookie: a; id > /tmp/x"));
  expect(cookie.text).toContain("argv[2]: 'echo Cookie: a; id > /tmp/x'");
  expect(cookie.whole).toBe(false);
  await expect(fixture.acp.answerPermission(cookie.id, "allow", "ada")).rejects.toThrow("permissions show");
  await cookie.deny();

  const pager = await askAbout({ command: "true", env: variables({ GIT_PAGER: "id; x" }), cwd: "/" });
  expect(pager.text).toMatch(/^program: \/\S*true\nargv\[0\]: true\ncwd: \/\nenv GIT_PAGER: 'id; x'$/);
  expect(pager.whole).toBe(false);
  await pager.deny();

  const bin = join(fixture.home, "bin");
  const install = async (name: string): Promise<void> => {
    await mkdir(join(bin, name), { recursive: true });
    await writeFile(join(bin, name, "tool"), `#!/bin/sh\ntouch ${fixture.home}/ran\n`, { mode: 0o755 });
  };
  await install("second");
  const PATH = `${bin}/first:${bin}/second:/bin`;
  const replaced = await askAbout({ command: "tool", env: variables({ PATH }) });
  expect(replaced.text).toContain(`program: ${bin}/second/tool`);
  await install("first");
  expect(await fixture.allowPermission(replaced.id)).toBe(true);
  expect(await answersOf(fixture, replaced.turn)).toMatchObject([{ code: REFUSED }]);
  expect(existsSync(join(fixture.home, "ran"))).toBe(false);

  const plain = await askAbout({ command: "true" });
  expect(plain.whole).toBe(true);
  expect(await fixture.acp.answerPermission(plain.id, "allow", "ada")).toMatchObject({ decided: true });
  await fixture.waitForTurnEnd(plain.turn);
});
