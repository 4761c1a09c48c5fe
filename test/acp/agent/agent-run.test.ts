import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { removeAgentTmpdir } from "../../../src/acp/agent/agent-run.js";
import type { SessionUpdate } from "../../../src/acp/wire/message.js";
import { AcpFixture, misbehavingAgent, shellAgent } from "../../support/agents/acp-fixture.js";
import { openAgentRunFixture } from "../../support/agents/agent-run-fixture.js";

const NOBODY = 65_534;
const MEGABYTE = 1024 * 1024;

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const exampleAgent = [
  process.execPath,
  "--import",
  at("../../support/agents/programs/fast-timers.mjs"),
  at("../../../node_modules/acp-sdk-1/dist/examples/agent.js"),
];

test("the SDK's example agent completes a turn with a permission that a rule allows", async () => {
  const edits = { effect: "allow", kind: "edit", title: "Modifying * file" } as const;
  const agent = await openAgentRunFixture(exampleAgent, { rules: [edits] });
  await agent.open();
  const turn = agent.beginTurn();
  expect(await agent.prompt()).toBe("end_turn");
  expect(turn.text.text).toMatch(/^I'll help you with that.*have been applied\.$/s);
  expect(turn.tools).toEqual([
    { id: "call_1", title: "Reading project files", kind: "read", status: "completed" },
    { id: "call_2", title: "Modifying critical configuration file", kind: "edit", status: "completed" },
  ]);
  await agent.agentRun.close("test");
  await agent.waitForExit();
});

test("without a rule a request is denied, and the process of a cancelled turn serves the next turn", async () => {
  const agent = await openAgentRunFixture(exampleAgent);
  await agent.open();
  const pid = agent.agentRun.run.rootPid;
  agent.beginTurn();
  agent.beforeAnswer = () => agent.cancel();
  expect(await agent.prompt()).toBe("cancelled");
  agent.beforeAnswer = async () => {};
  const turn = agent.beginTurn();
  expect(await agent.prompt()).toBe("end_turn");
  expect(turn.text.text).toContain("I'll skip the configuration update");
  expect(agent.agentRun.run.rootPid).toBe(pid);
  await agent.agentRun.close("test");
  await agent.waitForExit();
});

test.each(["giant-frame", "unterminated"])("%s: refused at the limit, in bounded memory", async (fault) => {
  const agent = await openAgentRunFixture(misbehavingAgent(fault));
  await agent.open();
  const before = process.memoryUsage().rss;
  await expect(agent.prompt()).rejects.toMatchObject({ reason: "frame-too-large" });
  // The limit, the same again while the buffer doubles, and garbage that is not collected yet.
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * MEGABYTE);
  expect((await agent.waitForExit()).closed.reason).toBe("frame-too-large");
});

test("20,000 frames a second are handled in order and in bounded memory until the deadline", async () => {
  let next = 0;
  let wrong = 0;
  const onUpdates = async (batch: readonly SessionUpdate[]): Promise<void> => {
    for (const { update } of batch) if ((update["content"] as { text: string }).text !== `${next++}`) wrong++;
  };
  const agent = await openAgentRunFixture(misbehavingAgent("flood"), { handlers: { onUpdates } });
  await agent.open();
  const before = process.memoryUsage().rss;
  await expect(agent.prompt({ deadlineMs: 1_500 })).rejects.toMatchObject({ code: "ACP_TIMEOUT" });
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * MEGABYTE);
  const { closed, record } = await agent.waitForExit();
  expect(closed).toMatchObject({ code: "ACP_CLOSED", reason: "request-timeout" });
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "acp: request-timeout" });
  expect(wrong).toBe(0);
  expect(next).toBeGreaterThan(2_000);
});

test("an agent that ignores SIGTERM and the end of its input is killed, and its stderr is redacted", async () => {
  const agent = await openAgentRunFixture(misbehavingAgent("stays"));
  await agent.open();
  await agent.prompt({ text: "my token=abcdefghijklmnop" });
  agent.agentRun.connection.close();
  const { record } = await agent.waitForExit();
  expect(record.exit).toMatchObject({ reason: "manual-cancel", signal: "SIGKILL" });
  expect(agent.agentRun.stderr.text).toContain("working on");
  expect(agent.agentRun.stderr.text).not.toContain("abcdefghijklmnop");
});

test("read-only directories of an agent are removed, and targets of links are not", async () => {
  const outside = await mkdtemp(join(tmpdir(), "hf-kept-"));
  const path = await mkdtemp(join(tmpdir(), "hf-acp-"));
  onTestFinished(() => void execFileSync("rm", ["-rf", outside, path]));
  const locked = join(path, "cache", "module");
  await mkdir(locked, { recursive: true });
  await writeFile(join(locked, "go.mod"), "");
  await writeFile(join(outside, "file"), "");
  await symlink(outside, join(path, "link"));
  await chmod(locked, 0o500);
  await chmod(join(path, "cache"), 0o000);
  // Root ignores permissions, so this runs as another user.
  if (process.getuid?.() === 0) {
    for (const each of [outside, path, join(path, "cache"), locked]) await chown(each, NOBODY, NOBODY);
    process.seteuid?.(NOBODY);
    onTestFinished(() => process.seteuid?.(0));
  }
  await chmod(outside, 0o500);
  expect(await removeAgentTmpdir(path)).toBeNull();
  expect(existsSync(path)).toBe(false);
  expect(existsSync(join(outside, "file"))).toBe(true);
});

test("a TMPDIR that cannot be removed is reported and has no other effect", async () => {
  const problems: string[] = [];
  const fixture = await AcpFixture.open({}, { onProblem: (message) => problems.push(message) });
  const session = await fixture.spawn(shellAgent());
  const { tmpdir: path } = await fixture.session(session);
  onTestFinished(() => void execFileSync("rm", ["-rf", path ?? "/nowhere"]));
  // Deeper than the longest path.
  const dig = `process.chdir(process.env.TMPDIR); for (let at = 0; at < 30; at++) {
    fs.mkdirSync("d".repeat(200)); process.chdir("d".repeat(200)) }`;
  const turn = await fixture.promptAndWait(session, `${process.execPath} -e '${dig}'; echo dug`);
  expect(turn).toMatchObject({ text: "dug\n" });
  expect((await fixture.close(session)).session).toMatchObject({ state: "closed" });
  await fixture.waitForAgentExit(session);
  expect(problems).toEqual([`TMPDIR ${path} of an agent that has ended could not be removed`]);
});
