import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { lastBytesAsText } from "../../../src/text/truncate.js";
import { AcpFixture, clientAgent } from "../../support/agents/acp-fixture.js";
import {
  ALLOW_ALL_RULES,
  answersOf,
  promptSteps,
  runSteps,
  spawnClientAgent,
} from "../../support/agents/client-agent.js";
import { FOREGROUND_SLEEP, livingParts, STUBBORN_TREE } from "../../support/agents/stubborn-tree.js";
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

async function openTerminalAgent() {
  const fixture = await AcpFixture.open();
  return { fixture, session: await spawnClientAgent(fixture, { terminals: true }) };
}

async function terminalsOf(fixture: AcpFixture, sessionId: string) {
  const runs = await fixture.supervisor.listRuns({ sessionId });
  return runs.filter(({ backendId }) => backendId === "acp-terminal");
}

test("a terminal is a run with output and status; kill ends its tree, and release forgets it", async () => {
  const { fixture, session } = await openTerminalAgent();
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

  const turn = await promptSteps(
    fixture,
    session,
    [CREATE, shell(STUBBORN_TREE)],
    [WAIT, last],
    [RELEASE, last],
  );
  await waitFor("all processes of the tree run", () => livingParts() === "Fbnste");
  const running = (await terminalsOf(fixture, session)).find(({ state }) => state === "running");
  // A wait resolves when another client stops the run.
  await fixture.supervisor.stop(running?.runId ?? "", { actor: "test" });
  expect(livingParts()).toBe("");
  const [, stopped, released] = await answersOf(fixture, turn);
  expect(stopped).toMatchObject({ signal: "SIGTERM" });
  expect(released).toEqual({});

  const killed = await runSteps(
    fixture,
    session,
    [CREATE, shell(`trap '' TERM; ${FOREGROUND_SLEEP} & wait`)],
    [KILL, last],
  );
  expect(killed[1]).toEqual({});
  expect(livingParts()).toBe("");
});

test("output is the newest within the limit and starts with a whole character", async () => {
  const { fixture, session } = await openTerminalAgent();
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

  const text = Buffer.from("é😀");
  const whole = { cut: false, ended: true };
  expect(lastBytesAsText(text, 6, whole)).toEqual({ output: "é😀", truncated: false });
  for (const limit of [5, 4]) expect(lastBytesAsText(text, limit, whole).output).toBe("😀");
  for (const limit of [3, 0]) expect(lastBytesAsText(text, limit, whole).output).toBe("");
  // The last character is incomplete, and the first has lost its beginning.
  expect(lastBytesAsText(text.subarray(1, 5), 9, { cut: true, ended: false })).toEqual({
    output: "",
    truncated: true,
  });
  expect(lastBytesAsText(text.subarray(0, 5), 9, { cut: false, ended: false }).output).toBe("é");
  expect(lastBytesAsText(Buffer.alloc(9, 0xff), 6, whole).output).toBe("\uFFFD\uFFFD");
});

test("processes that a turn leaves in a terminal are reported and ended on request", async () => {
  const { fixture, session } = await openTerminalAgent();
  await runSteps(fixture, session, [CREATE, { command: "sleep", args: ["3117"] }]);
  const [first] = await fixture.store.listAcpTurns({ sessionId: session });
  const audit = await fixture.waitFor(
    session,
    async () => (await fixture.store.getAcpTurn(first!.turnId))?.audit,
  );
  expect(audit).toMatchObject({ reaped: false });
  expect(audit.left.map(({ command }) => command)).toContain("sleep");

  const turn = await promptSteps(fixture, session, [CREATE, shell(STUBBORN_TREE)], [WAIT, last]);
  await waitFor("all processes of the tree run", () => livingParts() === "Fbnste");
  const { processes } = await fixture.acp.verifyProcessTree(session);
  expect(processes.filter(({ command }) => command === "sleep")).toHaveLength(7);
  const cancelled = await fixture.cancel(session, { reapTools: true });
  expect(cancelled).toMatchObject({ outcome: "cancelled", audit: { reaped: true, survivors: [] } });
  // The process of the first turn is not counted.
  const left = cancelled?.audit?.left.map(({ command }) => command);
  expect(left?.filter((command) => command === "sleep")).toHaveLength(6);
  expect(livingParts()).toBe("");
  expect((await terminalsOf(fixture, session)).filter(({ state }) => state === "running")).toHaveLength(1);
  expect((await fixture.waitForTurnEnd(turn)).outcome).toBe("cancelled");
  const output = await runSteps(fixture, session, [OUTPUT, last]);
  expect(output.at(-1)).toMatchObject({ output: "", exitStatus: { signal: "SIGTERM" } });
});

test.each(["close", "death", "death without a gateway"])(
  "terminals end with the %s of their agent and are proven empty",
  async (how) => {
    const { fixture, session } = await openTerminalAgent();
    await runSteps(fixture, session, [CREATE, shell(STUBBORN_TREE)]);
    await waitFor("all processes of the tree run", () => livingParts() === "Fbnste");
    if (how === "close") await fixture.close(session);
    else {
      const pid = await fixture.pid(session);
      // oxlint-disable-next-line no-restricted-properties -- the agent that this test started, by the number its run has
      const kill = (): boolean => process.kill(pid, "SIGKILL");
      if (how === "death") kill();
      const now = how === "death" ? fixture : await fixture.restart({}, { meanwhile: kill });
      await now.waitForState(session, "down");
    }
    expect(livingParts()).toBe("");
  },
);

test("the next gateway answers an open wait once, and keeps terminal ids and releases", async () => {
  const { fixture, session } = await openTerminalAgent();
  const go = join(fixture.home, "go");
  const turn = await promptSteps(
    fixture,
    session,
    [CREATE, { command: "true" }],
    [RELEASE, last],
    [CREATE, shell(`echo first; while [ ! -e ${go} ]; do sleep 0.05; done; echo second`)],
    [WAIT, last],
    [OUTPUT, last],
  );
  await fixture.waitFor(session, async () => {
    const notes = await fixture.store.listAcpUpdates({ sessionId: session, type: "client" });
    return notes.some(({ data }) => JSON.stringify(data).includes(WAIT));
  });
  const second = await fixture.restart();
  const released = await second.supervisor.listRuns({ sessionId: session, states: ["exited"] });
  writeFileSync(go, "");
  const answers = await answersOf(second, turn);
  const ended = { exitCode: 0, signal: null };
  expect(answers.slice(3)).toEqual([
    ended,
    { output: "first\nsecond\n", truncated: false, exitStatus: ended },
  ]);
  expect(second.log.match(/^answered ask-4$/gm)).toHaveLength(1);
  const terminalId = released[0]?.runId.replace("run_", "term_");
  const [gone, still] = await runSteps(second, session, [OUTPUT, { terminalId }], [OUTPUT, last]);
  expect(gone).toMatchObject({ code: NOT_THERE });
  expect(still).toMatchObject({ output: "first\nsecond\n" });
  const third = await second.restart();
  expect(await runSteps(third, session, [WAIT, last])).toEqual([ended]);
});

test("a command that started before a crash is not started again, and the next gateway answers", async () => {
  const { fixture, session } = await openTerminalAgent();
  const { store } = fixture;
  const commitAcp = store.commitAcpChange.bind(store);
  // The answer is never stored, as if the gateway had died before.
  store.commitAcpChange = (id, gateway, change) =>
    change.session?.sending?.text.includes("terminalId") === true
      ? new Promise(() => undefined)
      : commitAcp(id, gateway, change);
  const turn = await promptSteps(fixture, session, [CREATE, shell(`echo once; ${FOREGROUND_SLEEP}`)]);
  await waitFor("the command runs", () => livingParts() === "F");
  const second = await fixture.restart();
  const [answer] = await answersOf(second, turn);
  const runs = await terminalsOf(second, session);
  expect(runs.map(({ runId }) => runId.replace("run_", "term_"))).toEqual([answer?.["terminalId"]]);
  const [output] = await runSteps(second, session, [OUTPUT, last]);
  expect(output).toEqual({ output: "once\n", truncated: false, exitStatus: null });
  await second.close(session);
  expect(livingParts()).toBe("");
});

test("the number of open terminals is bounded", async () => {
  const { fixture, session } = await openTerminalAgent();
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
});

test("a command that could not be executed is not a terminal, also for the next gateway", async () => {
  const { fixture, session } = await openTerminalAgent();
  const many = Array.from({ length: 17 }, () => [CREATE, { command: "no-such-program-anywhere" }] as const);
  await runSteps(fixture, session, ...many);
  const second = await fixture.restart();
  const [made] = await runSteps(second, session, [CREATE, { command: "true" }]);
  expect(made).toEqual({ terminalId: expect.stringMatching(/^term_/) as string });
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
});
