import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ResponseOf } from "../../../src/api/contract.js";
import { RunGate } from "../../support/cli/recovery-fixture.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { waitForText } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

/** For all who do not mind each other's runs. */
let shared: BackgroundGateway;
beforeAll(async () => {
  shared = await BackgroundGateway.started();
});
afterAll(() => shared[Symbol.asyncDispose]());

describe.concurrent("process, on a shell's terminal", () => {
  test("send-keys presses keys, and says nothing", async () => {
    const runId = await shared.startBash();
    const typed = await shared.holdfast(
      "process",
      "send-keys",
      runId,
      "literal:echo a$((1+1))X",
      "BSpace",
      "Enter",
    );
    expect(typed).toEqual({ code: 0, signal: null, stdout: "", stderr: "" });
    await shared.waitForScreen(runId, "\na2\n");
    await shared.holdfast("process", "send-keys", runId, "--literal", "Enter C-c");
    await shared.waitForScreen(runId, "ready> Enter C-c");
    await shared.holdfast("process", "send-keys", runId, "C-u", "literal:exit 6", "Enter");
    expect(await shared.waitForEnd(runId)).toMatchObject({ exit: { code: 6 } });
  });

  test("send-keys refuses keys it does not know, with a suggestion, and presses none", async () => {
    const runId = await shared.startBash();
    expect(await shared.holdfast("process", "send-keys", runId, "literal:unseen", "Entr")).toEqual({
      code: 2,
      signal: null,
      stdout: "",
      stderr: 'holdfast: no key "Entr": did you mean Enter? To type it as text, write literal:…\n',
    });
    await shared.holdfast("process", "submit", runId, "echo next$((1+1))");
    await shared.waitForScreen(runId, "next2");
    const { stdout } = await shared.holdfast("screen", runId);
    expect(stdout).toBe("ready> echo next$((1+1))\nnext2\nready>\n");
  });

  test("paste brackets several lines, submit enters one, screen shows what came of them", async () => {
    const runId = await shared.startBash();
    const text = "echo one$((0+1))\necho two$((1+1))";
    expect(await shared.holdfast("process", "paste", runId, text)).toMatchObject({ code: 0, stderr: "" });
    await shared.waitForScreen(runId, "echo two");
    // A bracketed paste is not entered before somebody does.
    expect((await shared.holdfast("screen", runId)).stdout).not.toContain("one1");
    await shared.holdfast("process", "send-keys", runId, "Enter");
    await shared.waitForScreen(runId, "one1\ntwo2\nready>");
    expect(await shared.holdfast("process", "submit", runId, "echo three$((1+2))")).toMatchObject({
      code: 0,
    });
    await shared.waitForScreen(runId, "three3\nready>");
    expect(await shared.json("screen", runId)).toMatchObject({
      cols: 80,
      cursor: { x: 7, visible: true },
      alternate: false,
      modes: { bracketedPaste: true },
    });
  });

  test("paste says when lines were entered as if typed, and takes them from stdin", async () => {
    // The terminal's echo may come in between, so each line is said in one word.
    const reader = 'while read line; do echo "[$line]"; done';
    const runId = await shared.startRun({ argv: ["sh", "-c", reader], pty: true });
    const { child, finished } = shared.start("process", "paste", runId, "--submit");
    child.stdin.end("first\nsecond");
    expect(await finished).toMatchObject({
      code: 0,
      stderr: "holdfast: the program has not enabled bracketed paste, so each line was entered as if typed\n",
    });
    await shared.waitForOutput(runId, "[first]");
    await shared.waitForOutput(runId, "[second]");
  });

  test("resize tells the program", async () => {
    const runId = await shared.startBash();
    expect(await shared.holdfast("process", "resize", runId, "31", "99")).toMatchObject({
      code: 0,
      stdout: "",
      stderr: "",
    });
    await shared.holdfast("process", "submit", runId, "stty size");
    await shared.waitForScreen(runId, "31 99");
    expect(await shared.holdfast("process", "resize", runId, "0", "99")).toMatchObject({ code: 2 });
    expect(await shared.holdfast("process", "resize", runId, "9999", "99")).toMatchObject({ code: 2 });
  });

  test("is refused where there is none", async () => {
    const runId = await shared.startRun({ argv: ["cat"], stdin: "pipe" });
    const refused = {
      code: 2,
      stdout: "",
      stderr: `holdfast: run ${runId} has no terminal; start it with a PTY\n`,
    };
    expect(await shared.holdfast("screen", runId)).toMatchObject(refused);
    expect(await shared.holdfast("process", "send-keys", runId, "Enter")).toMatchObject(refused);
    expect(await shared.holdfast("process", "paste", runId, "x")).toMatchObject(refused);
    expect(await shared.holdfast("process", "resize", runId, "9", "9")).toMatchObject(refused);
  });
});

describe.concurrent("process, on a run", () => {
  test("write gives it input, poll tells what it said and how it ended, from an offset on", async () => {
    const runId = await shared.startRun({ argv: ["cat"], stdin: "pipe" });
    expect(await shared.holdfast("process", "write", runId, "some\n")).toMatchObject({ code: 0 });
    await shared.waitForOutput(runId, "some");
    const polled = await shared.json<ResponseOf<"poll">>("process", "poll", runId, "--stdout", "2");
    expect(polled).toMatchObject({
      run: { runId, state: "running" },
      output: [{ stream: "stdout", offset: 2, nextOffset: 5, text: "me\n" }, { stream: "stderr" }],
      waitingForInput: { seems: false },
      survivors: [],
    });
    const { child, finished } = shared.start("process", "write", runId, "--close");
    child.stdin.end();
    expect(await finished).toMatchObject({ code: 0, stderr: "" });
    await shared.waitForEnd(runId);
    const { stdout } = await shared.holdfast("process", "poll", runId, "--wait", "5s", "--stdout", "5");
    expect(stdout).toMatch(new RegExp(`^${runId}: exit 0, `));
    expect(await shared.holdfast("process", "write", runId, "late")).toMatchObject({
      code: 1,
      stderr: `holdfast: run ${runId}: it has ended; the input was not delivered\n`,
    });
  });

  test("kill answers gone, with the record as JSON", async () => {
    const runId = await shared.startScript(
      "trap '' TERM; setsid sleep 7008 & sleep 7009 & echo up; wait; wait",
    );
    await shared.waitForOutput(runId, "up");
    expect(await shared.json("process", "kill", runId, "--grace", "50ms")).toMatchObject({
      outcome: "gone",
      survivors: [],
      run: { runId, state: "exited", exit: { reason: "manual-cancel", actor: "operator" } },
    });
    expect(await shared.membersOf(runId)).toEqual([]);
  });

  test("remove hides it at once, and stops it", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const runId = await gatewayFixture.startScript("sleep 7010");
    expect(await gatewayFixture.holdfast("process", "remove", runId)).toMatchObject({
      code: 0,
      stdout: `${runId} is removed\n${runId} is gone (manual-cancel)\n`,
    });
    const client = await gatewayFixture.client();
    expect(await client.listRuns({ query: { all: "1" } })).toMatchObject({ runs: [], next: null });
    expect(await gatewayFixture.waitForEnd(runId)).toMatchObject({ emptiness: "proven" });
  });

  test("is told which: whole, begun, ambiguous, unknown, empty", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const client = await gatewayFixture.client();
    const ids: string[] = [];
    const twin = (): string | undefined =>
      ids.map((id) => id.slice(0, 5)).find((begin, at, all) => all.indexOf(begin) !== at);
    while (twin() === undefined)
      ids.push((await client.exec({ body: { argv: ["sh", "-c", "exit 4"] } })).run.runId);
    const [runId = ""] = ids;
    const alone = runId.slice(4);
    const poll = (wanted: string) => gatewayFixture.holdfast("process", "poll", wanted);
    expect(await poll(alone)).toMatchObject({ code: 0, stdout: `${runId}: exit 4, idle 0.0 s\n` });
    expect(await poll(runId.slice(0, 12))).toMatchObject({ code: 0 });
    const several = await poll(twin() ?? "");
    expect(several).toMatchObject({ code: 2, stdout: "" });
    expect(several.stderr).toMatch(
      /^holdfast: "run_." is the beginning of several run ids: run_\w+, run_\w+\n$/,
    );
    for (const wanted of ["run_000000000000", "../../etc", "run_i\u001b[31m"])
      expect(await poll(wanted)).toMatchObject({
        code: 1,
        stdout: "",
        stderr: `holdfast: no run ${wanted.replace("\u001b[31m", "")}\n`,
      });
    for (const wanted of ["", "run_"])
      expect(await gatewayFixture.holdfast("process", "kill", wanted)).toMatchObject({
        code: 2,
        stderr: "holdfast: the run is missing: give its id, the beginning of its id, or its name\n",
      });
  });
});

describe.concurrent("logs", () => {
  const coloured = String.raw`printf '\033[31mred\033[0m\007\n'`;

  test("-f follows to the end, with nothing in it that a terminal obeys", async () => {
    await using gate = await RunGate.create();
    const runId = await shared.startScript(`${coloured}; read line <'${gate.path}'; ${coloured}; exit 3`);
    const { child, finished } = shared.start("logs", "-f", runId);
    await waitForText(child.stdout, "red");
    await gate.release();
    expect(await finished).toEqual({ code: 0, signal: null, stdout: "red␇\nred␇\n", stderr: "" });
    expect(await shared.holdfast("logs", runId, "--raw", "-n", "1")).toMatchObject({
      code: 0,
      stdout: "\u001b[31mred\u001b[0m\u0007\n",
    });
  });

  const counted = (most: number): string => Array.from({ length: most }, (_, at) => `é${at + 1}\n`).join("");

  test("-f leaves nothing out that is kept, however much is written at once", async () => {
    await using gate = await RunGate.create();
    const runId = await shared.startScript(`echo up; read line <'${gate.path}'; seq -f é%.0f 1 200000`);
    const { child, finished } = shared.start("logs", "-f", runId);
    await waitForText(child.stdout, "up");
    await gate.release();
    const whole = `up\n${counted(200_000)}`;
    const followed = await finished;
    expect(followed.stdout === whole, `${followed.stdout.length} of ${whole.length}`).toBe(true);
    expect(followed).toMatchObject({ code: 0, stderr: "" });
    const from = await shared.holdfast("process", "log", "-f", runId, "--offset", "0", "--bytes", "8");
    expect(from.stdout === whole, `${from.stdout.length} of ${whole.length}`).toBe(true);
  });

  test("say how much was dropped, once, and show all that was kept", async () => {
    const runId = await shared.startScript("seq -f é%.0f 1 1100000");
    await shared.waitForEnd(runId);
    const whole = Buffer.from(counted(1_100_000));
    const { stdout, stderr } = await shared.holdfast("process", "log", "-f", runId, "--offset", "0");
    const [, dropped = "0"] =
      /^holdfast: (\d+) bytes of stdout were dropped: the run wrote more than is kept\n$/.exec(stderr) ?? [];
    expect(Number(dropped), stderr).toBeGreaterThan(0);
    expect(whole.subarray(Number(dropped)).equals(Buffer.from(stdout)), dropped).toBe(true);
    const { skipped } = await shared.json<{ skipped: number }>("process", "log", runId, "--skip", "0");
    expect(skipped).toBe(Number(dropped));
    const newest = await shared.holdfast("logs", runId, "-n", "1");
    expect(newest.stdout).toBe("é1100000\n");
    expect(newest.stderr).toMatch(
      /MiB of earlier stdout not shown; holdfast logs run_\w+ -n all prints it\n$/,
    );
  });

  test("-f goes on over a restart of the gateway", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    await using gate = await RunGate.create();
    const runId = await gatewayFixture.startScript(`echo up; read line <'${gate.path}'; echo after`);
    const { child, finished } = gatewayFixture.start("logs", "-f", runId);
    await waitForText(child.stdout, "up");
    await gatewayFixture.holdfast("gateway", "restart");
    await gate.release();
    expect(await finished).toEqual({ code: 0, signal: null, stdout: "up\nafter\n", stderr: "" });
  });

  test("-f follows what another supervisor holds, and waits for its news", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    await using gate = await RunGate.create();
    const run = gatewayFixture.start(
      "run",
      "--",
      "sh",
      "-c",
      `echo up; read line <'${gate.path}'; echo after`,
    );
    await waitForText(run.child.stdout, "up");
    const client = await gatewayFixture.client();
    const [{ runId } = { runId: "" }] = (await client.listRuns()).runs;
    const before = performance.now();
    await client.poll({ params: { runId }, query: { stdout: 3, waitMs: 300 } });
    expect(performance.now() - before).toBeGreaterThan(250);
    const { child, finished } = gatewayFixture.start("logs", "-f", runId);
    await waitForText(child.stdout, "up");
    await gate.release();
    expect(await finished).toMatchObject({ code: 0, stdout: "up\nafter\n", stderr: "" });
    expect(await run.finished).toMatchObject({ code: 0 });
  });

  test("--json gives pieces with their offsets, of one stream if asked", async () => {
    const runId = await shared.startScript("echo out; echo err >&2");
    await shared.waitForEnd(runId);
    const { stdout } = await shared.holdfast("logs", "-f", runId, "--json");
    const pieces = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown);
    expect(pieces).toMatchObject([
      { stream: "stdout", offset: 0, nextOffset: 4, text: "out\n" },
      { stream: "stderr", offset: 0, nextOffset: 4, text: "err\n" },
    ]);
    expect(await shared.holdfast("logs", runId, "--stream", "stderr")).toMatchObject({ stdout: "err\n" });
  });
});

test("poll and logs as JSON have text without escapes, and unchanged text only with --raw", async () => {
  const runId = await shared.startScript(String.raw`printf 'a\033[31mb\000\n'`);
  await shared.waitForEnd(runId);
  const json = async (...words: readonly string[]): Promise<string> =>
    (await shared.holdfast(...words, "--json")).stdout;
  for (const text of [await json("process", "poll", runId), await json("logs", runId)]) {
    expect(text).toContain(String.raw`"text":"ab␀\n"`);
    expect(text).not.toContain("u001b");
  }
  const raw = JSON.parse(await json("process", "poll", runId, "--raw")) as {
    readonly output: readonly { readonly base64: string }[];
  };
  expect(Buffer.from(raw.output[0]?.base64 ?? "", "base64").toString()).toBe("a\u001b[31mb\0\n");
  expect((await shared.holdfast("process", "poll", runId, "--raw")).stdout).toContain("a\u001b[31mb\0\n");
  expect((await shared.holdfast("process", "poll", runId)).stdout).toContain("ab␀\n");
});

describe.concurrent("events", () => {
  test("-f goes on with what happens, one JSON object per line", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const first = await gatewayFixture.startScript("exit 0");
    await gatewayFixture.waitForEnd(first);
    const { child, finished } = gatewayFixture.start("events", "-f", "--json");
    let seen = "";
    child.stdout.on("data", (data: Buffer) => (seen += data.toString()));
    const ends = (): number => seen.split('"type":"exit"').length - 1;
    await waitFor("what was is shown", () => ends() === 1);
    const second = await gatewayFixture.startScript("exit 5");
    await waitFor("what comes is shown", () => ends() === 2);
    child.kill("SIGTERM");
    await finished;
    const events = seen
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { seq: number; runId: string; type: string })
      .filter(({ type }) => type === "spawn" || type === "exit");
    expect(events.map(({ runId, type }) => `${runId} ${type}`)).toEqual([
      `${first} spawn`,
      `${first} exit`,
      `${second} spawn`,
      `${second} exit`,
    ]);
  });
});
