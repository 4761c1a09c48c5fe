import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { createClient } from "../../../src/api/client.js";
import { openGateway } from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOutputText } from "../../../src/queries/output.js";
import { readOperatorToken } from "../../../src/sessions/requester.js";
import { whyNoLimits } from "../../support/anchor/cgroups.js";
import {
  errorOf,
  gatewayForFile,
  outputText,
  shellCommand,
  waitForRunEnd,
} from "../../support/gateway/real-gateway.js";
import { scaled } from "../../support/scale.js";
import { temporaryHome } from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const gatewayFixture = gatewayForFile();

test("a foreground run answers with its exit code and both outputs", async () => {
  const body = shellCommand("echo out; echo err >&2; exit 3");
  const answer = await gatewayFixture.client.exec({ body });
  expect(answer).toMatchObject({ running: false, failure: "exit-code", ptyFellBack: false });
  expect(answer.run).toMatchObject({ state: "exited", exit: { reason: "exit", code: 3, signal: null } });
  expect([outputText(answer), outputText(answer, "stderr")]).toEqual(["out\n", "err\n"]);
  expect(answer.output.every(({ ended, skipped }) => ended && skipped === 0)).toBe(true);
});

test("a successful run has no failure", async () => {
  const answer = await gatewayFixture.client.exec({ body: { argv: ["true"] } });
  expect(answer).toMatchObject({ running: false, failure: null, run: { exit: { code: 0 } } });
});

test("a run that ends by a signal names it", async () => {
  const answer = await gatewayFixture.client.exec({ body: shellCommand("kill -TERM $$") });
  expect(answer).toMatchObject({ failure: "signal", run: { exit: { reason: "signal", signal: "SIGTERM" } } });
});

test("not found and not executable are different failures", async () => {
  const file = join(gatewayFixture.home, "plain.txt");
  await writeFile(file, "text");
  await chmod(file, 0o600);
  const missing = await gatewayFixture.client.exec({ body: { argv: ["/nowhere/at/all"] } });
  const plain = await gatewayFixture.client.exec({ body: { argv: [file] } });
  expect(missing).toMatchObject({ running: false, failure: "not-found", run: { state: "exited" } });
  expect(plain).toMatchObject({ running: false, failure: "not-executable", run: { state: "exited" } });
});

test("a missing working directory and a missing command are different failures", async () => {
  const cwd = join(gatewayFixture.home, "no-such-directory");
  const { failure, run } = await gatewayFixture.client.exec({ body: { argv: ["true"], cwd } });
  expect(failure).toBe("cwd-not-found");
  expect(run.exit).toMatchObject({ reason: "spawn-error", detail: expect.stringContaining(cwd) as string });
  const file = await gatewayFixture.client.exec({ body: { argv: ["true"], cwd: "/dev/null" } });
  expect(file.failure).toBe("cwd-not-found");
});

test("limits are enforced, and an unknown limit is bad input", async ({ skip }) => {
  const bad = gatewayFixture.client.exec({ body: { argv: ["true"], limits: { pids: 0 } } });
  expect(await errorOf(bad)).toMatchObject({ code: "BAD_INPUT", message: expect.stringContaining("pids") });
  if (whyNoLimits !== null) skip(whyNoLimits);
  const limits = { memoryBytes: 64 * 1024 ** 2, pids: 20, cpus: 1.5 };
  const answer = await gatewayFixture.client.exec({ body: { argv: ["true"], limits } });
  expect(answer).toMatchObject({ failure: null, run: { limits, exit: { code: 0, limitHit: null } } });
  expect(answer.run.usage).toMatchObject({ peakTasks: 1, source: { cpu: "cgroup", memory: "cgroup" } });
});

test("a limit that cannot be set is a failure of its own kind, and nothing runs", async () => {
  vi.stubEnv("HOLDFAST_ANCHOR_WEAKEN", "controllers");
  onTestFinished(() => void vi.unstubAllEnvs());
  const home = await temporaryHome();
  const gateway = await openGateway({ home, onEvent: () => {} });
  onTestFinished(() => gateway.stop({ runs: "terminate", waitMs: 0 }).then(() => undefined));
  const client = createClient({
    socketPath: gatewaySocketPath(home),
    token: (await readOperatorToken(home)) ?? "",
  });
  const answer = await client.exec({ body: { ...shellCommand("echo ran"), limits: { cpus: 1 } } });
  expect(answer).toMatchObject({ running: false, failure: "limit-unavailable", output: [] });
  expect(answer.run).toMatchObject({ state: "exited", root: null, limits: { cpus: 1 } });
  expect(answer.run.exit).toMatchObject({
    reason: "spawn-error",
    detail: expect.stringMatching(/^cannot set a limit \(cpu: .*; the command did not run/),
  });
});

test.for([
  ["overall-timeout", { timeoutMs: 150 }],
  ["no-output-timeout", { noOutputTimeoutMs: 150 }],
] as const)("%s ends a run, and is its failure", async ([failure, limits]) => {
  const answer = await gatewayFixture.client.exec({ body: { argv: ["sleep", "60"], graceMs: 0, ...limits } });
  expect(answer).toMatchObject({ running: false, failure, run: { exit: { reason: failure } } });
});

test("after yieldMs a run continues in the background, and the answer has its output so far", async () => {
  const answer = await gatewayFixture.client.exec({
    body: { ...shellCommand("echo early; sleep 0.6; echo late"), yieldMs: 250 },
  });
  expect(answer).toMatchObject({ running: true, failure: null });
  expect(outputText(answer)).toBe("early\n");
  const { runId } = answer.run;
  const record = await waitForRunEnd(gatewayFixture.client, runId);
  expect(record.exit).toMatchObject({ reason: "exit", code: 0 });
  const poll = await gatewayFixture.client.poll({ params: { runId } });
  expect(outputText(poll)).toBe("early\nlate\n");
});

test("a background run is answered at once", async () => {
  const before = performance.now();
  const { running, run } = await gatewayFixture.client.exec({
    body: { argv: ["sleep", "60"], background: true },
  });
  expect(running).toBe(true);
  expect(performance.now() - before).toBeLessThan(scaled(5_000));
  expect(await gatewayFixture.client.kill({ params: run, body: { graceMs: 0 } })).toMatchObject({
    outcome: "gone",
  });
});

test.for(["null", "pipe"] as const)("the given input is the whole input (stdin: %s)", async (stdin) => {
  const answer = await gatewayFixture.client.exec({
    body: { argv: ["cat"], stdin, input: "héllo", timeoutMs: 3_000, graceMs: 0 },
  });
  expect(answer.failure).toBeNull();
  expect(outputText(answer)).toBe("héllo");
});

test("a run without input reads end of file", async () => {
  expect(await gatewayFixture.client.exec({ body: { argv: ["cat"] } })).toMatchObject({ failure: null });
});

test("environment replaces the environment, env adds to it, cwd and umask apply", async () => {
  const answer = await gatewayFixture.client.exec({
    body: {
      ...shellCommand('echo "$A $B ${HOME-none}"; pwd; umask'),
      environment: { A: "1", B: "2", PATH: "/usr/bin:/bin" },
      env: { B: "3" },
      cwd: "/usr",
      umask: 0o077,
    },
  });
  expect(outputText(answer)).toBe("1 3 none\n/usr\n0077\n");
});

test("a missing directory is a failed start, not a failure of the gateway", async () => {
  const answer = await gatewayFixture.client.exec({ body: { argv: ["true"], cwd: "/nowhere/at/all" } });
  expect(answer.running).toBe(false);
  expect(answer.run.exit?.reason).toBe("spawn-error");
});

test("a PTY is a terminal of the requested size", async () => {
  const answer = await gatewayFixture.client.exec({
    body: { argv: ["sh", "-c", "test -t 0 && test -t 1 && stty size"], pty: true, rows: 31, cols: 101 },
  });
  expect(answer.run.io).toBe("pty");
  expect(outputText(answer)).toBe("31 101\n");
});

test("a command goes verbatim to a shell on a PTY", async () => {
  const answer = await gatewayFixture.client.exec({ body: { command: "test -t 1 && echo 'a  b' | tr a c" } });
  expect(outputText(answer)).toBe("c  b\n");
});

test("merged output has the order of the writes", async () => {
  const answer = await gatewayFixture.client.exec({
    body: { ...shellCommand("echo 1; echo 2 >&2; echo 3"), merge: true },
  });
  expect(outputText(answer)).toBe("1\n2\n3\n");
});

test("output beyond maxChars is truncated to the newest part, and the answer says so", async () => {
  const answer = await gatewayFixture.client.exec({ body: { ...shellCommand("seq 1 1000"), maxChars: 9 } });
  const piece = answer.output.find(({ stream }) => stream === "stdout");
  expect(piece).toMatchObject({ text: "999\n1000\n", offset: 3893 - 9, nextOffset: 3893, skipped: 3893 - 9 });
});

test("truncation does not split a character", async () => {
  const answer = await gatewayFixture.client.exec({
    body: { ...shellCommand("printf 'ab😀é'"), maxChars: 2 },
  });
  expect(answer.output[0]).toMatchObject({ text: "é", skipped: 6, nextOffset: 8 });
});

test("truncation is reported also for bytes that are no characters", async () => {
  const bytes = Buffer.alloc(100, 0xff);
  const read = async (_: string, { offset = 0 }) => ({
    stream: "stdout" as const,
    offset,
    bytes: bytes.subarray(offset),
  });
  const piece = await readOutputText(read, "stdout", 0, 50, true);
  expect(piece).toMatchObject({ text: "\uFFFD".repeat(50), offset: 50, skipped: 50, nextOffset: 100 });
});

test("pieces by offset add up to the whole, also if they split characters", async () => {
  const script = `for b in '\\303' '\\251' '\\360\\237' '\\230\\200' 'x' '\\342\\202' '\\254'; do printf "$b"; sleep 0.05; done`;
  const { run } = await gatewayFixture.client.exec({ body: { ...shellCommand(script), background: true } });
  let whole = "";
  let stdout = 0;
  for (let ended = false; !ended;) {
    const { output } = await gatewayFixture.client.poll({ params: run, query: { stdout, waitMs: 1_000 } });
    const piece = output.find(({ stream }) => stream === "stdout");
    expect(piece?.offset).toBe(stdout);
    whole += piece?.text ?? "";
    stdout = piece?.nextOffset ?? 0;
    ended = piece?.ended ?? true;
  }
  expect(whole).toBe("é😀x€");
});

test("a waiting caller that disconnects cancels its run", async () => {
  const left = new AbortController();
  const labels = { who: "vanishing" };
  const answer = gatewayFixture.client.exec(
    { body: { argv: ["sleep", "60"], labels, graceMs: 0 } },
    left.signal,
  );
  const find = () => gatewayFixture.client.listRuns({ query: { all: "1", label: "who=vanishing" } });
  await waitFor("it runs", async () => (await find()).runs[0]?.state === "running");
  left.abort();
  await expect(answer).rejects.toThrow();
  const [run] = (await find()).runs;
  const record = await waitForRunEnd(gatewayFixture.client, run?.runId ?? "");
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "operator (left)" });
});

test("a run that has yielded continues when its caller disconnects", async () => {
  const left = new AbortController();
  const { run } = await gatewayFixture.client.exec(
    { body: { argv: ["sleep", "60"], yieldMs: 10 } },
    left.signal,
  );
  left.abort();
  const { run: later } = await gatewayFixture.client.poll({ params: run, query: { waitMs: 200 } });
  expect(later.state).toBe("running");
  expect(await gatewayFixture.client.kill({ params: run, body: { graceMs: 0 } })).toMatchObject({
    outcome: "gone",
  });
});

test("a stopping gateway leaves the runs whose callers wait", async () => {
  const home = await temporaryHome();
  const first = await openGateway({ home, onEvent: () => undefined });
  const token = (await readOperatorToken(home)) ?? "";
  const client = createClient({ socketPath: gatewaySocketPath(home), token });
  const answer = errorOf(client.exec({ body: { argv: ["sleep", "60"] } }));
  await waitFor("it runs", async () => (await client.listRuns()).runs[0]?.state === "running");
  await first.stop();
  expect((await answer).code).toBe("GATEWAY_UNREACHABLE");
  const second = await openGateway({ home, onEvent: () => undefined });
  await second.ready;
  const { runs } = await client.listRuns({ query: { all: "1" } });
  await second.stop({ runs: "terminate", waitMs: 0 });
  expect(runs).toMatchObject([{ state: "running", exit: null }]);
});

test.for([
  ["neither argv nor command", {}],
  ["both", { argv: ["true"], command: "true" }],
  ["an empty argv", { argv: [] }],
  ["a NUL in argv", { argv: ["true", "a\0b"] }],
  ["an empty program", { argv: [""] }],
  ["a NUL in the directory", { argv: ["true"], cwd: "/\0" }],
  ["a NUL in the environment", { argv: ["true"], env: { A: "\0" } }],
  ["a name with =", { argv: ["true"], env: { "A=B": "1" } }],
  ["an injected library", { argv: ["true"], env: { LD_PRELOAD: "/tmp/x.so" } }],
  [
    "a chosen id with a second try",
    { argv: ["true"], pty: true, ptyFallback: true, runId: "run_0123456789ab" },
  ],
  ["an unknown field", { argv: ["true"], shel: "sh" }],
  ["a blank command", { command: "  " }],
] as const)("%s is bad input, and starts nothing", async ([, body]) => {
  const count = async () =>
    (await gatewayFixture.client.listRuns({ query: { all: "1", limit: 1000 } })).runs.length;
  const before = await count();
  expect((await errorOf(gatewayFixture.client.exec({ body: body as never }))).code).toBe("BAD_INPUT");
  expect(await count()).toBe(before);
});

test("input on a PTY has an end", async () => {
  const answer = await gatewayFixture.client.exec({
    body: { argv: ["cat"], pty: true, input: "typed\n", timeoutMs: 3_000, graceMs: 0 },
  });
  expect(answer.failure).toBeNull();
  expect(outputText(answer)).toContain("typed\n");
});

test("a program that does not read its input delays the answer no longer than yieldMs", async () => {
  const before = performance.now();
  const body = { argv: ["sleep", "5"], input: "x".repeat(1_048_576), yieldMs: 100, graceMs: 0 };
  const { running, run } = await gatewayFixture.client.exec({ body });
  expect(running).toBe(true);
  expect(performance.now() - before).toBeLessThan(scaled(3_000));
  expect(await gatewayFixture.client.kill({ params: run, body: { graceMs: 0 } })).toMatchObject({
    outcome: "gone",
  });
});

test("all of a large input arrives", async () => {
  const answer = await gatewayFixture.client.exec({
    body: { argv: ["wc", "-c"], input: "x".repeat(1_048_576) },
  });
  expect(outputText(answer)).toBe("1048576\n");
});

test("a program that never stops writing does not delay the answer", async () => {
  const before = performance.now();
  const { running, run, output } = await gatewayFixture.client.exec({
    body: { argv: ["yes"], yieldMs: 300, maxChars: 10, graceMs: 0 },
  });
  expect(running).toBe(true);
  expect(output[0]).toMatchObject({ text: "y\ny\ny\ny\ny\n" });
  expect(output[0]?.skipped).toBeGreaterThan(0);
  expect(performance.now() - before).toBeLessThan(scaled(4_000));
  expect(await gatewayFixture.client.kill({ params: run, body: { graceMs: 0 } })).toMatchObject({
    outcome: "gone",
  });
});

const NOISY = String.raw`printf 'a\033[31mred\033[0m\033]0;title\007\000b\r\nc\rd\342\200\256e\377'`;
const CLEAN = "ared␀b\nc␍d<U+202E>e�";

test("text of exec and poll has no terminal escapes and no control characters, like text of log", async () => {
  const answer = await gatewayFixture.client.exec({ body: shellCommand(NOISY) });
  const params = { runId: answer.run.runId };
  const log = await gatewayFixture.client.log({ params, query: { offset: 0 } });
  expect(log.text).toBe(CLEAN);
  expect(outputText(answer)).toBe(CLEAN);
  expect(outputText(await gatewayFixture.client.poll({ params }))).toBe(CLEAN);
  expect(answer.output[0]).not.toHaveProperty("base64");
});

test("exec and poll return the unchanged bytes on request", async () => {
  const answer = await gatewayFixture.client.exec({ body: { ...shellCommand(NOISY), raw: true } });
  const bytes = Buffer.concat([
    Buffer.from("a\u001b[31mred\u001b[0m\u001b]0;title\u0007\0b\r\nc\rd\u202ee"),
    Buffer.from([0xff]),
  ]);
  const polled = await gatewayFixture.client.poll({ params: answer.run, query: { raw: "1" } });
  for (const { output } of [answer, polled]) {
    const [stdout] = output;
    expect(stdout?.text).toBe(CLEAN);
    expect(Buffer.from(stdout?.base64 ?? "", "base64")).toEqual(bytes);
    expect(stdout).toMatchObject({ offset: 0, nextOffset: bytes.length });
  }
  const cut = await gatewayFixture.client.poll({ params: answer.run, query: { raw: "1", maxChars: 4 } });
  const [newest] = cut.output;
  expect(Buffer.from(newest?.base64 ?? "", "base64")).toEqual(bytes.subarray(newest?.offset));
});
