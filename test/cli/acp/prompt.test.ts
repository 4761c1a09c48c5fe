import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openScriptedSession, SCRIPTED_AGENT, scriptedPrompt } from "../../support/agents/scripted-agent.js";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";
import { waitForText } from "../../support/cli/cli-fixture.js";

describe("a turn that ends", () => {
  const shared = gatewayAndCliForFile();
  beforeAll(() => openScriptedSession(shared.gatewayFixture, "r", { reap: "asked" }), 30_000);
  const acp = (...args: readonly string[]) => shared.batchCli.holdfast("acp", ...args);

  test.each([
    [{ stop: "refusal" }, 1, "the agent refused to continue"],
    [{ fail: "no model\u001b[2J" }, 1, "the turn failed: the agent refused session/prompt: no model"],
    [{ stop: "max_tokens" }, 3, "the agent stopped early: max_tokens"],
  ])("with %j is reported", async (step, code, words) => {
    const answer = await acp("prompt", "r", scriptedPrompt({ say: "well" }, step));
    expect(answer).toMatchObject({ code, stdout: "well\n" });
    expect(answer.stderr).toContain(words);
    expect(answer.stderr).toMatch(/^holdfast: [^\n\u001b]+\n$/);
  });

  test("by the end of its agent is interrupted, and the next turn has no context", async () => {
    const died = await acp("prompt", "r", scriptedPrompt({ say: "well" }, { exit: 3 }));
    expect(died).toMatchObject({ code: 121, stdout: "well\n" });
    expect(died.stderr).toContain("the turn was interrupted, and the prompt will not be sent again");
    const next = await acp("prompt", "r", "hello");
    expect(next).toMatchObject({ code: 123, stdout: "hello\n" });
    expect(next.stderr).toContain("lost the context of earlier turns");
    expect(await acp("prompt", "r", "again")).toMatchObject({ code: 0 });
  });

  test("by its timeout ends the agent", async () => {
    const late = await acp(
      "prompt",
      "r",
      "--timeout",
      "1s",
      scriptedPrompt({ say: "well" }, { wait: "/nowhere" }),
    );
    expect(late).toMatchObject({ code: 124, stdout: "well\n" });
  });

  test("by a cancel is reported to the waiting command; --no-wait does not wait", async () => {
    await acp("prompt", "r", "--format", "quiet", "hello");
    const waiting = shared.gatewayFixture.start(
      "acp",
      "prompt",
      "r",
      scriptedPrompt({ say: "up" }, { wait: "/nowhere" }),
    );
    await waitForText(waiting.child.stdout, "up");
    const queued = shared.gatewayFixture.start("acp", "prompt", "r", "after you");
    await waitForText(queued.child.stderr, "queued, with one prompt before it");
    const left = await acp("prompt", "r", "--no-wait", "later");
    expect(left).toMatchObject({ code: 0, stdout: expect.stringMatching(/^turn_[0-9a-z]{12}\n$/) as string });
    const { stdout: turnId } = left;
    expect(await acp("cancel", "r", "--turn", turnId.trim())).toMatchObject({ code: 0 });
    expect(await acp("cancel", "r")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/ is cancelled; r is ready for the next prompt\n$/) as string,
    });
    expect(await waiting.finished).toMatchObject({ code: 130, stdout: "up\n" });
    expect(await queued.finished).toMatchObject({ code: 0, stdout: "after you\n" });
    expect(await acp("cancel", "r")).toMatchObject({ code: 1, stdout: "" });
  });

  test("and leaves processes lists them; cancel --reap-tools ends them and keeps the agent", async () => {
    const client = await shared.gatewayFixture.client();
    const shell = fileURLToPath(new URL("../../support/agents/programs/shell-agent.mjs", import.meta.url));
    const body = { argv: [process.execPath, shell], cwd: shared.gatewayFixture.home, key: "s" };
    const { session } = await client.acpSpawn({ body });
    // Before exec the process is still a shell.
    const sleeping = 'until test "$(cat /proc/$!/comm)" = sleep; do :; done; echo up';
    const left = await acp("prompt", "s", `setsid sleep 3041 & ${sleeping}`);
    expect(left).toMatchObject({ code: 0 });
    expect(left.stderr).toMatch(
      /^holdfast: the turn left 1 process running until the session is closed: sleep.* \(pid \d+\)\n$/,
    );
    const waiting = shared.gatewayFixture.start(
      "acp",
      "prompt",
      "s",
      `setsid sleep 3042 & ${sleeping}; sleep 3043`,
    );
    await waitForText(waiting.child.stdout, "up");
    const cancel = await acp("cancel", "s", "--reap-tools");
    expect(cancel).toMatchObject({ code: 0 });
    expect(cancel.stderr).toMatch(/^holdfast: ended \d process(es)? that the turn left: .*sleep/);
    expect(await waiting.finished).toMatchObject({ code: 130 });
    const { tree } = await client.acpShow({ params: { id: "s" } });
    // The process of the first turn stays: only the second turn was reaped.
    expect(tree.processes.filter(({ command }) => command.includes("sleep"))).toHaveLength(1);
    expect((await client.acpShow({ params: { id: "s" } })).session.runId).toBe(session.runId);
    expect(await acp("close", "s")).toMatchObject({ code: 0 });
  });

  test("with --mode run closes its session", async () => {
    const run = await acp(
      "spawn",
      "--agent-command",
      SCRIPTED_AGENT,
      "--mode",
      "run",
      "--name",
      "once",
      "hello",
    );
    expect(run).toMatchObject({ code: 0, stdout: "hello\n" });
    const record = await acp("spawn", "--agent-command", SCRIPTED_AGENT, "--mode", "run", "--json", "hello");
    expect(JSON.parse(record.stdout)).toMatchObject({ created: true, turn: { text: "hello" } });
    const none = await acp("spawn", "--agent-command", SCRIPTED_AGENT, "--mode", "run");
    expect(none).toMatchObject({ code: 2, stdout: "" });
  });

  test.each([
    [["--agent-command", "exit 7"], 121, "its output ended; it exited with code 7\n"],
    [
      ["--agent-command", "echo 'no\u001b[2J key' >&2; kill -9 $$"],
      121,
      "it was ended by SIGKILL; its last line on stderr: no key\n",
    ],
    [
      ["--agent-command", `'${process.execPath}' -e 'throw Object.assign(Error("no key"), { code: 3 })'`],
      121,
      "its last line on stderr: Error: no key",
    ],
    [
      ["--agent-command", "echo welcome"],
      121,
      "it wrote a line that is not a frame: welcome; it exited with code 0\n",
    ],
    [["no-such-agent"], 2, "`holdfast agents list`"],
    [["--agent-command", "x", "--cwd", "/nowhere"], 2, "/nowhere"],
    [["--agent-command", SCRIPTED_AGENT, "a", "b"], 2, "--agent-command"],
    [["--agent-command", SCRIPTED_AGENT, "--approve-all", "--deny-all"], 2, "--approve-all"],
    [["--agent-command", SCRIPTED_AGENT, "--name", "ses_0123456789ab"], 2, "ses_0123456789ab"],
  ])("before it starts, with %j, is reported and leaves no session", async (args, code, why) => {
    const failed = await acp("spawn", ...args);
    expect(failed.stderr).toMatch(/^holdfast: [^\n\u001b]+\n$/);
    expect(failed.stderr).toContain(why);
    expect(failed).toMatchObject({ code, stdout: "" });
    const { stdout } = await acp("list", "--json");
    expect((JSON.parse(stdout) as { key: string }[]).map(({ key }) => key)).toEqual(["r"]);
  });

  afterAll(async () => {
    await acp("close", "r");
  });
});
