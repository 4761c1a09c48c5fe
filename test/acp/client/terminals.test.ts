import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { access, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { questionLines } from "../../../src/sessions/question-pages.js";
import { lastBytesAsText } from "../../../src/text/truncate.js";
import { AcpFixture } from "../../support/agents/acp-fixture.js";
import {
  ALLOW_ALL_RULES,
  clientAgent,
  type ClientStep,
  parseAnswers,
  runSteps,
  spawnClientAgent,
} from "../../support/agents/client-agent.js";
import { livingParts, STUBBORN_TREE } from "../../support/agents/stubborn-tree.js";
import { waitFor } from "../../support/wait-for.js";

const CREATE = "terminal/create";
const OUTPUT = "terminal/output";
const WAIT = "terminal/wait_for_exit";
const KILL = "terminal/kill";
const RELEASE = "terminal/release";
const last = { terminalId: "last" };
const REFUSED = -32_001;
const NOT_THERE = -32_002;
const shell = (command: string): object => ({ command: "sh", args: ["-c", command] });

async function terminalsOf(fixture: AcpFixture, sessionId: string) {
  const runs = await fixture.supervisor.listRuns({ sessionId });
  return runs.filter(({ backendId }) => backendId === "acp-terminal");
}

test("a terminal is a run with output and status; kill ends its tree, and release forgets it", async () => {
  const fixture = await AcpFixture.open();
  const session = await spawnClientAgent(fixture, { terminals: true });
  const said = "printf 'aé\\377'; echo $WORD >&2; pwd; exit 3";
  const env = [{ name: "WORD", value: "loud" }];
  const answers = await runSteps(
    fixture,
    session,
    [CREATE, { ...shell(said), env, cwd: "/" }],
    [WAIT, last],
    [OUTPUT, last],
    [KILL, last],
    [OUTPUT, last],
    [RELEASE, last],
    [OUTPUT, last],
    [WAIT, last],
    [CREATE, { command: "no-such-program-anywhere" }],
    [CREATE, { command: "true", env: [{ name: "LD_PRELOAD", value: "x" }] }],
    [CREATE, { command: "true", env: [{ name: "HOLDFAST_TOKEN", value: "x" }] }],
    [CREATE, { command: "true", cwd: "relative" }],
  );
  const [created, status, output] = answers;
  const ended = { exitCode: 3, signal: null };
  expect(created?.["terminalId"]).toMatch(/^term_/);
  expect(status).toEqual(ended);
  expect(output).toEqual({ output: "aé\uFFFDloud\n/\n", truncated: false, exitStatus: ended });
  expect(answers.slice(3, 6)).toEqual([{}, output, {}]);
  expect(answers.slice(6).map(({ code }) => code)).toEqual([
    ...[NOT_THERE, NOT_THERE],
    ...[REFUSED, REFUSED, -32_602, -32_602],
  ]);
  const [run] = (await terminalsOf(fixture, session)).filter(({ exit }) => exit?.code === 3);
  expect(run).toMatchObject({
    sessionId: session,
    sessionKey: "one",
    labels: { "acp.session": session, "acp.agent": (await fixture.session(session)).runId },
    emptiness: "proven",
  });

  const turn = await fixture.prompt(
    session,
    JSON.stringify([
      [CREATE, shell(STUBBORN_TREE)],
      [WAIT, last],
      [RELEASE, last],
    ] satisfies ClientStep[]),
  );
  await waitFor("all of the tree lives", () => livingParts() === "Fbnste");
  const nasty = (await terminalsOf(fixture, session)).find(({ state }) => state === "running");
  // A wait resolves when another client stops the run.
  await fixture.supervisor.stop(nasty?.runId ?? "", { actor: "test" });
  expect(livingParts()).toBe("");
  const [, stopped, released] = parseAnswers(await fixture.waitForTurnEnd(turn));
  expect(stopped).toMatchObject({ signal: "SIGTERM" });
  expect(released).toEqual({});

  const killed = await runSteps(
    fixture,
    session,
    [CREATE, shell("trap '' TERM; sleep 3106 & wait")],
    [KILL, last],
  );
  expect(killed[1]).toEqual({});
  expect(livingParts()).toBe("");
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("output is the newest within the limit and starts with a whole character", async () => {
  const fixture = await AcpFixture.open();
  const session = await spawnClientAgent(fixture, { terminals: true });
  const ended = { exitCode: 0, signal: null };
  const answers = await runSteps(
    fixture,
    session,
    [CREATE, { ...shell("printf 'ééé'; printf abc"), outputByteLimit: 6 }],
    [WAIT, last],
    [OUTPUT, last],
    [CREATE, { ...shell("yes é | head -c 3000000"), outputByteLimit: 1000 }],
    [WAIT, last],
    [OUTPUT, last],
    [CREATE, { ...shell("yes é | head -c 9000000"), outputByteLimit: 9_000_000 }],
    [WAIT, last],
    [OUTPUT, last],
  );
  expect(answers[2]).toEqual({ output: "éabc", truncated: true, exitStatus: ended });
  expect(answers[5]).toMatchObject({ truncated: true, exitStatus: ended });
  expect(answers[5]?.["output"]).toMatch(/^\n?(é\n)+$/);
  expect(Buffer.byteLength(String(answers[5]?.["output"]))).toBeGreaterThan(996);
  expect(answers[8]?.["bytes"]).toBeLessThanOrEqual(1024 * 1024);
  expect(answers[8]?.["bytes"]).toBeGreaterThan(1024 * 1024 - 4);
  await fixture.acp.closeSession(session, { actor: "test" });

  const text = Buffer.from("é😀");
  const whole = { cut: false, ended: true };
  expect(lastBytesAsText(text, 6, whole)).toEqual({ output: "é😀", truncated: false });
  for (const limit of [5, 4]) expect(lastBytesAsText(text, limit, whole).output).toBe("😀");
  for (const limit of [3, 0]) expect(lastBytesAsText(text, limit, whole).output).toBe("");
  // The rest of the last one has yet to come, the first lost its beginning.
  expect(lastBytesAsText(text.subarray(1, 5), 9, { cut: true, ended: false })).toEqual({
    output: "",
    truncated: true,
  });
  expect(lastBytesAsText(text.subarray(0, 5), 9, { cut: false, ended: false }).output).toBe("é");
  expect(lastBytesAsText(Buffer.alloc(9, 0xff), 6, whole).output).toBe("\uFFFD\uFFFD");
});

test("processes that a turn leaves in a terminal are reported and ended on request", async () => {
  const fixture = await AcpFixture.open();
  const session = await spawnClientAgent(fixture, { terminals: true });
  await runSteps(fixture, session, [CREATE, shell("sleep 3117")]);
  const [first] = await fixture.store.listAcpTurns({ sessionId: session });
  const named = await fixture.waitFor(
    session,
    async () => (await fixture.store.getAcpTurn(first!.turnId))?.audit,
  );
  expect(named).toMatchObject({ reaped: false });
  expect(named.left.map(({ command }) => command)).toContain("sleep");

  const turn = await fixture.prompt(
    session,
    JSON.stringify([
      [CREATE, shell(STUBBORN_TREE)],
      [WAIT, last],
    ] satisfies ClientStep[]),
  );
  await waitFor("all of the tree lives", () => livingParts() === "Fbnste");
  const { processes } = await fixture.acp.verifyProcessTree(session);
  expect(processes.filter(({ command }) => command === "sleep")).toHaveLength(7);
  const cancelled = await fixture.acp.cancelTurn(session, { actor: "test", reapTools: true });
  expect(cancelled).toMatchObject({ outcome: "cancelled", audit: { reaped: true, survivors: [] } });
  // The first turn's is not this one's.
  const left = cancelled?.audit?.left.map(({ command }) => command);
  expect(left?.filter((command) => command === "sleep")).toHaveLength(6);
  expect(livingParts()).toBe("");
  expect((await terminalsOf(fixture, session)).filter(({ state }) => state === "running")).toHaveLength(1);
  expect((await fixture.waitForTurnEnd(turn)).outcome).toBe("cancelled");
  const output = await runSteps(fixture, session, [OUTPUT, last]);
  expect(output.at(-1)).toMatchObject({ output: "", exitStatus: { signal: "SIGTERM" } });
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test.each(["close", "death", "death without a gateway"])(
  "terminals end with the %s of their agent and are proven empty",
  async (how) => {
    const fixture = await AcpFixture.open();
    const session = await spawnClientAgent(fixture, { terminals: true });
    await runSteps(fixture, session, [CREATE, shell(STUBBORN_TREE)]);
    await waitFor("all of the tree lives", () => livingParts() === "Fbnste");
    const pid = await fixture.pid(session);
    const dies = (): void => {
      // oxlint-disable-next-line no-restricted-properties -- the agent this test started, asked for its own number
      process.kill(pid, "SIGKILL");
    };
    if (how === "close") {
      await fixture.acp.closeSession(session, { actor: "test" });
      expect(livingParts()).toBe("");
      await fixture.waitForAgentExit(session);
      return;
    }
    if (how === "death") dies();
    const now = how === "death" ? fixture : await fixture.restart({}, { meanwhile: dies });
    await now.waitFor(session, async () => (await now.session(session)).state === "down");
    expect(livingParts()).toBe("");
    await now.waitForAgentExit(session);
    await now.acp.closeSession(session, { actor: "test" });
  },
);

test("commands are judged by permission rules and exec rules, and the stricter decides", async () => {
  const fixture = await AcpFixture.open();
  const rules = [
    { effect: "reject", kind: "execute", title: "sh *" },
    { effect: "ask", kind: "execute", title: "ls *" },
    { effect: "allow", kind: "execute" },
  ] as const;
  const execRules = [
    { effect: "deny", executable: "sleep" },
    { effect: "ask", executable: "touch" },
    { effect: "allow" },
  ] as const;
  const marker = join(fixture.home, "marker");
  const session = await spawnClientAgent(fixture, { terminals: true }, { rules, session: { execRules } });
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
  const command = { command: "touch", args: [marker] };
  const steps = [
    [CREATE, command, "unawaited"],
    [CREATE, { ...command, env: [{ name: "API_TOKEN", value: "hush-hush" }] }, "unawaited"],
    [WAIT, last],
  ] satisfies ClientStep[];
  // Two that wait for a person, and one for a terminal that has ended.
  const turn = await fixture.prompt(session, JSON.stringify([...steps, [CREATE, command]]));
  await fixture.waitFor(session, async () => {
    const open = await fixture.store.listAcpPermissionRequests({ sessionId: session, pending: true });
    return open.length === 3;
  });
  expect(existsSync(marker)).toBe(false);
  const second = await fixture.restart();
  const stored = await second.store.listAcpUpdates({ sessionId: session });
  // But for the prompt, which says it.
  expect(JSON.stringify(stored.filter(({ type }) => type !== "turn"))).not.toContain("hush-hush");
  // The agent waits for the last one only, so that comes last.
  for (const { id } of await second.store.listAcpPermissionRequests({ sessionId: session, pending: true })) {
    expect(await second.allowPermission(id)).toBe(true);
    await second.waitFor(
      session,
      async () => (await second.store.getAcpPermissionRequest(id))?.answered === true,
    );
  }
  const after = parseAnswers(await second.waitForTurnEnd(turn));
  expect(after).toHaveLength(4);
  // Its environment is never stored: what would be run without it is not what was allowed.
  const kept = after.filter(({ code }) => code === REFUSED);
  expect(kept).toMatchObject([{ message: expect.stringContaining("ask again") as string }]);
  await waitFor("it was run", () => existsSync(marker));
  await second.acp.closeSession(session, { actor: "test" });
  await second.waitForAgentExit(session);
});

test("the next gateway answers an open wait once, and keeps terminal ids and releases", async () => {
  const fixture = await AcpFixture.open();
  const go = join(fixture.home, "go");
  const session = await spawnClientAgent(fixture, { terminals: true });
  const steps = [
    [CREATE, { command: "true" }],
    [RELEASE, last],
    [CREATE, { ...shell(`echo first; while [ ! -e ${go} ]; do sleep 0.05; done; echo second`) }],
    [WAIT, last],
    [OUTPUT, last],
  ] satisfies ClientStep[];
  const turn = await fixture.prompt(session, JSON.stringify(steps));
  await fixture.waitFor(session, async () => {
    const notes = await fixture.store.listAcpUpdates({ sessionId: session, type: "client" });
    return notes.some(({ data }) => JSON.stringify(data).includes(WAIT));
  });
  const second = await fixture.restart();
  const released = await second.supervisor.listRuns({ sessionId: session, states: ["exited"] });
  writeFileSync(go, "");
  const answers = parseAnswers(await second.waitForTurnEnd(turn));
  const ended = { exitCode: 0, signal: null };
  expect(answers.slice(3)).toEqual([
    ended,
    { output: "first\nsecond\n", truncated: false, exitStatus: ended },
  ]);
  expect(readFileSync(join(fixture.home, "agent.log"), "utf8").match(/^answered ask-4$/gm)).toHaveLength(1);
  const terminalId = released[0]?.runId.replace("run_", "term_");
  const [gone, still] = await runSteps(second, session, [OUTPUT, { terminalId }], [OUTPUT, last]);
  expect(gone).toMatchObject({ code: NOT_THERE });
  expect(still).toMatchObject({ output: "first\nsecond\n" });
  const third = await second.restart();
  expect(await runSteps(third, session, [WAIT, last])).toEqual([ended]);
  await third.acp.closeSession(session, { actor: "test" });
  await third.waitForAgentExit(session);
});

test("a command that started before a crash is not started again, and the next gateway answers", async () => {
  const fixture = await AcpFixture.open();
  const session = await spawnClientAgent(fixture, { terminals: true });
  const { store } = fixture;
  const commitAcp = store.commitAcpChange.bind(store);
  // Nothing comes of the answer, as if this were the last moment.
  store.commitAcpChange = (id, gateway, change) =>
    change.session?.sending?.text.includes("terminalId") === true
      ? new Promise(() => undefined)
      : commitAcp(id, gateway, change);
  const turn = await fixture.prompt(session, JSON.stringify([[CREATE, shell("echo once; sleep 3106")]]));
  await waitFor("it runs", () => livingParts() === "F");
  const second = await fixture.restart();
  const [answer] = parseAnswers(await second.waitForTurnEnd(turn));
  const runs = await terminalsOf(second, session);
  expect(runs.map(({ runId }) => runId.replace("run_", "term_"))).toEqual([answer?.["terminalId"]]);
  const [output] = await runSteps(second, session, [OUTPUT, last]);
  expect(output).toEqual({ output: "once\n", truncated: false, exitStatus: null });
  await second.acp.closeSession(session, { actor: "test" });
  expect(livingParts()).toBe("");
  await second.waitForAgentExit(session);
});

test("the number of open terminals is bounded", async () => {
  const fixture = await AcpFixture.open();
  const session = await spawnClientAgent(fixture, { terminals: true }, { rules: ALLOW_ALL_RULES });
  const many = Array.from({ length: 16 }, () => [CREATE, { command: "true" }] as const);
  const answers = await runSteps(
    fixture,
    session,
    ...many,
    [CREATE, { command: "true" }],
    [RELEASE, last],
    [CREATE, { command: "true" }],
  );
  expect(answers.slice(0, 16).every(({ terminalId }) => typeof terminalId === "string")).toBe(true);
  expect(answers.slice(16)).toMatchObject([
    { code: REFUSED, message: expect.stringContaining("release one") as string },
    {},
    { terminalId: expect.any(String) as string },
  ]);
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
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
    [CREATE, { command: "true", env: [{ name: "API_KEY", value: "never" }] }],
    [CREATE, shell("x".repeat(1024 * 1024))],
  );
  expect(answers.map(({ code }) => code)).toEqual([REFUSED, REFUSED, REFUSED, -32_602]);
  const hidden = `API_KEY=hush-hush; ${long} asked`;
  const turn = await fixture.prompt(session, JSON.stringify([[CREATE, shell(hidden)]]));
  const asked = await fixture.waitFor(session, async () => {
    const [open] = await fixture.store.listAcpPermissionRequests({ sessionId: session, pending: true });
    return open;
  });
  expect(asked.title).toBe(`sh -c '${hidden.replace("hush-hush", "***")}'`);
  const question = await fixture.acp.questionOf(asked);
  expect(questionLines(question?.parts() ?? []).join("\n")).toContain(hidden);
  await expect(fixture.acp.answerPermission(asked.id, "allow", "ada")).rejects.toThrow(
    "does not show the whole",
  );
  expect(await fixture.allowPermission(asked.id)).toBe(true);
  expect(parseAnswers(await fixture.waitForTurnEnd(turn))).toMatchObject([
    { terminalId: expect.any(String) as string },
  ]);
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("only the parameters of waiting requests are stored, and requests per turn are bounded", async () => {
  const fixture = await AcpFixture.open({ permissionRequestsPerTurn: 8 });
  const path = join(fixture.home, "asked");
  const rules = [{ effect: "ask", kind: "edit" }, ...ALLOW_ALL_RULES] as const;
  const session = await spawnClientAgent(fixture, { terminals: true, files: "read-write" }, { rules });
  const junk = "x".repeat(100_000);
  const turn = await fixture.prompt(
    session,
    JSON.stringify([
      [CREATE, { command: "true" }],
      [WAIT, { ...last, junk }],
      [RELEASE, { ...last, junk }],
      ["fs/write_text_file", { path, content: "kept", junk }],
    ]),
  );
  const { id } = await fixture.waitFor(session, async () => {
    const [open] = await fixture.store.listAcpPermissionRequests({ sessionId: session, pending: true });
    return open;
  });
  const notes = JSON.stringify(await fixture.store.listAcpUpdates({ sessionId: session, type: "client" }));
  expect(notes).toContain("kept");
  expect(notes.length).toBeLessThan(junk.length);
  const second = await fixture.restart({ permissionRequestsPerTurn: 8 });
  expect(await second.allowPermission(id)).toBe(true);
  expect(parseAnswers(await second.waitForTurnEnd(turn))[3]).toEqual({});
  const reads = Array.from({ length: 9 }, () => ["fs/read_text_file", { path }]);
  const asked = await second.promptAndWait(session, JSON.stringify(reads));
  expect(asked).toMatchObject({ outcome: "interrupted", problem: { code: "ACP_CLOSED" } });
  expect(parseAnswers(asked)).toHaveLength(8);
  const waits = Array.from({ length: 9 }, () => [WAIT, { terminalId: "none" }]);
  expect(parseAnswers(await second.promptAndWait(session, JSON.stringify(waits)))).toHaveLength(8);
  await second.acp.closeSession(session, { actor: "test" });
  await second.waitForAgentExit(session);
});

test("a command that could not be executed is not a terminal, also for the next gateway", async () => {
  const fixture = await AcpFixture.open();
  const session = await spawnClientAgent(fixture, { terminals: true });
  const many = Array.from({ length: 17 }, () => [CREATE, { command: "no-such-program-anywhere" }] as const);
  await runSteps(fixture, session, ...many);
  const second = await fixture.restart();
  const [made] = await runSteps(second, session, [CREATE, { command: "true" }]);
  expect(made).toEqual({ terminalId: expect.stringMatching(/^term_/) as string });
  await second.acp.closeSession(session, { actor: "test" });
  await second.waitForAgentExit(session);
});

test("a terminal has the agent's variables from the catalogue, and no others that load code", async () => {
  const env = { NODE_OPTIONS: "--no-deprecation" };
  const own = { id: "own", name: "Own", versionArgs: [], passEnv: [], env, acp: { argv: [...clientAgent] } };
  const fixture = await AcpFixture.open({}, { agents: [own] });
  const { session: opened } = await fixture.acp.ensureSession({
    key: "own",
    agent: "own",
    cwd: fixture.home,
    client: { terminals: true },
    rules: ALLOW_ALL_RULES,
  });
  const session = opened.sessionId;
  const answers = await runSteps(
    fixture,
    session,
    [CREATE, shell("echo $NODE_OPTIONS")],
    [WAIT, last],
    [OUTPUT, last],
    [CREATE, { command: "true", env: [{ name: "NODE_OPTIONS", value: "--import=other" }] }],
  );
  expect(answers[2]).toMatchObject({ output: "--no-deprecation\n" });
  expect(answers[3]).toMatchObject({ code: REFUSED });
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("a command hidden behind a header, a variable or a directory is shown in full, and only that command is executed", async () => {
  const fixture = await AcpFixture.open();
  const rules = [{ effect: "ask", kind: "execute" }] as const;
  const session = await spawnClientAgent(fixture, { terminals: true }, { rules });
  const asked = async (create: object) => {
    const turn = await fixture.prompt(session, JSON.stringify([[CREATE, create]]));
    const permission = await fixture.waitFor(session, async () => {
      const [open] = await fixture.store.listAcpPermissionRequests({ sessionId: session, pending: true });
      return open;
    });
    const question = await fixture.acp.questionOf(permission);
    const text = questionLines(question?.parts() ?? []).join("\n");
    return { turn, id: permission.id, text, whole: question?.whole };
  };
  const cookie = await asked(shell("echo Cookie: a; id > /tmp/x"));
  expect(cookie.text).toContain("argv[2]: 'echo Cookie: a; id > /tmp/x'");
  expect(cookie.whole).toBe(false);
  await expect(fixture.acp.answerPermission(cookie.id, "allow", "ada")).rejects.toThrow("permissions show");
  await fixture.acp.answerPermission(cookie.id, "deny", "ada");
  await fixture.waitForTurnEnd(cookie.turn);

  const variable = await asked({ command: "true", env: [{ name: "GIT_PAGER", value: "id; x" }], cwd: "/" });
  expect(variable.text).toMatch(/^program: \/\S*true\nargv\[0\]: true\ncwd: \/\nenv GIT_PAGER: 'id; x'$/);
  expect(variable.whole).toBe(false);
  await fixture.acp.answerPermission(variable.id, "deny", "ada");
  await fixture.waitForTurnEnd(variable.turn);

  const bin = join(fixture.home, "bin");
  const tool = async (name: string): Promise<void> => {
    await mkdir(join(bin, name), { recursive: true });
    await writeFile(join(bin, name, "tool"), `#!/bin/sh\ntouch ${fixture.home}/ran\n`, { mode: 0o755 });
  };
  await tool("second");
  const PATH = `${bin}/first:${bin}/second:/bin`;
  const exchanged = await asked({ command: "tool", env: [{ name: "PATH", value: PATH }] });
  expect(exchanged.text).toContain(`program: ${bin}/second/tool`);
  await tool("first");
  expect(await fixture.allowPermission(exchanged.id)).toBe(true);
  expect(parseAnswers(await fixture.waitForTurnEnd(exchanged.turn))).toMatchObject([{ code: REFUSED }]);
  await expect(access(join(fixture.home, "ran"))).rejects.toThrow("ENOENT");

  const plain = await asked({ command: "true" });
  expect(plain).toMatchObject({ whole: true });
  expect(await fixture.acp.answerPermission(plain.id, "allow", "ada")).toMatchObject({ decided: true });
  await fixture.waitForTurnEnd(plain.turn);
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});
