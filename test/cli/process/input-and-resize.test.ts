import { describe, expect, test } from "vitest";
import type { ResponseOf } from "../../../src/api/contract.js";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";

const fixture = gatewayAndCliForFile();

async function json<Value>(...args: readonly string[]): Promise<Value> {
  const { stdout, stderr } = await fixture.batchCli.holdfast(...args, "--json");
  expect(stdout, stderr).not.toBe("");
  return JSON.parse(stdout) as Value;
}

describe.concurrent("process, on the terminal of a run", () => {
  test("send-keys presses keys, and prints nothing", async () => {
    const runId = await fixture.gatewayFixture.startBash();
    const keys = ["literal:echo a$((1+1))X", "BSpace", "Enter"];
    const typed = await fixture.batchCli.holdfast("process", "send-keys", runId, ...keys);
    expect(typed).toEqual({ code: 0, signal: null, stdout: "", stderr: "" });
    await fixture.gatewayFixture.waitForScreen(runId, "\na2\n");
    await fixture.batchCli.holdfast("process", "send-keys", runId, "--literal", "Enter C-c");
    await fixture.gatewayFixture.waitForScreen(runId, "ready> Enter C-c");
    await fixture.batchCli.holdfast("process", "send-keys", runId, "C-u", "literal:exit 6", "Enter");
    expect(await fixture.gatewayFixture.waitForEnd(runId)).toMatchObject({ exit: { code: 6 } });
  });

  test("send-keys refuses an unknown key with a suggestion, and presses none", async () => {
    const runId = await fixture.gatewayFixture.startBash();
    expect(await fixture.batchCli.holdfast("process", "send-keys", runId, "literal:unseen", "Entr")).toEqual({
      code: 2,
      signal: null,
      stdout: "",
      stderr: 'holdfast: no key "Entr": did you mean Enter? To type it as text, write literal:…\n',
    });
    await fixture.batchCli.holdfast("process", "submit", runId, "echo next$((1+1))");
    await fixture.gatewayFixture.waitForScreen(runId, "next2");
    const { stdout } = await fixture.batchCli.holdfast("screen", runId);
    expect(stdout).toBe("ready> echo next$((1+1))\nnext2\nready>\n");
  });

  test("paste brackets several lines, submit enters one, screen shows the result", async () => {
    const runId = await fixture.gatewayFixture.startBash();
    const text = "echo one$((0+1))\necho two$((1+1))";
    expect(await fixture.batchCli.holdfast("process", "paste", runId, text)).toMatchObject({
      code: 0,
      stderr: "",
    });
    await fixture.gatewayFixture.waitForScreen(runId, "echo two");
    // A bracketed paste waits for Enter.
    expect((await fixture.batchCli.holdfast("screen", runId)).stdout).not.toContain("one1");
    await fixture.batchCli.holdfast("process", "send-keys", runId, "Enter");
    await fixture.gatewayFixture.waitForScreen(runId, "one1\ntwo2\nready>");
    expect(await fixture.batchCli.holdfast("process", "submit", runId, "echo three$((1+2))")).toMatchObject({
      code: 0,
    });
    await fixture.gatewayFixture.waitForScreen(runId, "three3\nready>");
    expect(await json("screen", runId)).toMatchObject({
      cols: 80,
      cursor: { x: 7, visible: true },
      alternate: false,
      modes: { bracketedPaste: true },
    });
  });

  test("paste reads stdin, and reports lines that were entered as if typed", async () => {
    const reader = 'while read line; do echo "[$line]"; done';
    const runId = await fixture.gatewayFixture.startRun({ argv: ["sh", "-c", reader], pty: true });
    const { child, finished } = fixture.gatewayFixture.start("process", "paste", runId, "--submit");
    child.stdin.end("first\nsecond");
    expect(await finished).toMatchObject({
      code: 0,
      stderr: "holdfast: the program has not enabled bracketed paste, so each line was entered as if typed\n",
    });
    await fixture.gatewayFixture.waitForOutput(runId, "[first]");
    await fixture.gatewayFixture.waitForOutput(runId, "[second]");
  });

  test("resize changes the size of the terminal", async () => {
    const runId = await fixture.gatewayFixture.startBash();
    expect(await fixture.batchCli.holdfast("process", "resize", runId, "31", "99")).toMatchObject({
      code: 0,
      stdout: "",
      stderr: "",
    });
    await fixture.batchCli.holdfast("process", "submit", runId, "stty size");
    await fixture.gatewayFixture.waitForScreen(runId, "31 99");
    expect(await fixture.batchCli.holdfast("process", "resize", runId, "0", "99")).toMatchObject({ code: 2 });
    expect(await fixture.batchCli.holdfast("process", "resize", runId, "9999", "99")).toMatchObject({
      code: 2,
    });
  });

  test("is refused for a run without a terminal", async () => {
    const runId = await fixture.gatewayFixture.startRun({ argv: ["cat"], stdin: "pipe" });
    const refused = {
      code: 2,
      stdout: "",
      stderr: `holdfast: run ${runId} has no terminal; it must be started with one (--pty, over MCP terminal: true)\n`,
    };
    expect(await fixture.batchCli.holdfast("screen", runId)).toMatchObject(refused);
    expect(await fixture.batchCli.holdfast("process", "send-keys", runId, "Enter")).toMatchObject(refused);
    expect(await fixture.batchCli.holdfast("process", "paste", runId, "x")).toMatchObject(refused);
    expect(await fixture.batchCli.holdfast("process", "resize", runId, "9", "9")).toMatchObject(refused);
  });
});

describe.concurrent("process, on a run", () => {
  test("write sends input, poll prints output from an offset on, and the end", async () => {
    const runId = await fixture.gatewayFixture.startRun({ argv: ["cat"], stdin: "pipe" });
    expect(await fixture.batchCli.holdfast("process", "write", runId, "some\n")).toMatchObject({ code: 0 });
    await fixture.gatewayFixture.waitForOutput(runId, "some");
    const polled = await json<ResponseOf<"poll">>("process", "poll", runId, "--stdout", "2");
    expect(polled).toMatchObject({
      run: { runId, state: "running" },
      output: [{ stream: "stdout", offset: 2, nextOffset: 5, text: "me\n" }, { stream: "stderr" }],
      waitingForInput: { seems: false },
      survivors: [],
    });
    const { child, finished } = fixture.gatewayFixture.start("process", "write", runId, "--close");
    child.stdin.end();
    expect(await finished).toMatchObject({ code: 0, stderr: "" });
    await fixture.gatewayFixture.waitForEnd(runId);
    const { stdout } = await fixture.batchCli.holdfast(
      "process",
      "poll",
      runId,
      "--wait",
      "5s",
      "--stdout",
      "5",
    );
    expect(stdout).toMatch(new RegExp(`^${runId}: exit 0, `));
    expect(await fixture.batchCli.holdfast("process", "write", runId, "late")).toMatchObject({
      code: 1,
      stderr: `holdfast: run ${runId}: it has ended; the input was not delivered\n`,
    });
  });

  test("accepts a whole id or its beginning; refuses an ambiguous, unknown or empty one", async () => {
    const client = await fixture.gatewayFixture.client();
    const ids: string[] = [];
    const twin = (): string | undefined =>
      ids.map((id) => id.slice(0, 5)).find((begin, at, all) => all.indexOf(begin) !== at);
    while (twin() === undefined)
      ids.push((await client.exec({ body: { argv: ["sh", "-c", "exit 4"] } })).run.runId);
    const [runId = ""] = ids;
    const alone = runId.slice(4);
    const poll = (wanted: string) => fixture.batchCli.holdfast("process", "poll", wanted);
    expect(await poll(alone)).toMatchObject({ code: 0, stdout: `${runId}: exit 4, idle 0.0 s\n` });
    expect(await poll(runId.slice(0, 12))).toMatchObject({ code: 0 });
    const several = await poll(twin() ?? "");
    expect(several).toMatchObject({ code: 2, stdout: "" });
    expect(several.stderr).toMatch(
      /^holdfast: "run_." is the beginning of several run ids: run_\w+(, run_\w+)+\n$/,
    );
    for (const wanted of ["run_000000000000", "../../etc", "run_i\u001b[31m"])
      expect(await poll(wanted)).toMatchObject({
        code: 1,
        stdout: "",
        stderr: `holdfast: no run ${wanted.replace("\u001b[31m", "")}\n`,
      });
    for (const wanted of ["", "run_"])
      expect(await fixture.batchCli.holdfast("process", "kill", wanted)).toMatchObject({
        code: 2,
        stderr: "holdfast: the run is missing: give its id, the beginning of its id, or its name\n",
      });
  });
});

test("--json of write, send-keys, paste, submit, resize and kill describes what was done", async () => {
  const runId = await fixture.gatewayFixture.startBash();
  expect(await json("process", "write", runId, "ech")).toEqual({ runId, bytes: 3, closed: false });
  expect(await json("process", "send-keys", runId, "o", "Space")).toEqual({
    runId,
    keys: ["o", "Space"],
  });
  expect(await json("process", "paste", runId, "1")).toEqual({
    runId,
    characters: 1,
    bracketed: true,
    submitted: false,
  });
  expect(await json("process", "submit", runId, "$((1+1))")).toEqual({
    runId,
    characters: 8,
    bracketed: true,
    submitted: true,
  });
  expect(await json("process", "resize", runId, "30", "100")).toEqual({ runId, rows: 30, cols: 100 });
  await fixture.gatewayFixture.waitForScreen(runId, "12\nready>");
  expect(await json("process", "kill", runId, "--grace", "0")).toMatchObject({ outcome: "gone" });
});
