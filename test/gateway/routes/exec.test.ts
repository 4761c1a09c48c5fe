import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { createClient } from "../../../src/api/client.js";
import { openGateway } from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
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

const fixture = gatewayForFile();

test("a foreground run answers with its exit code and both outputs", async () => {
  const body = shellCommand("echo out; echo err >&2; exit 3");
  const answer = await fixture.client.exec({ body });
  expect(answer).toMatchObject({ running: false, failure: "exit-code", ptyFellBack: false });
  expect(answer.run).toMatchObject({ state: "exited", exit: { reason: "exit", code: 3, signal: null } });
  expect([outputText(answer), outputText(answer, "stderr")]).toEqual(["out\n", "err\n"]);
  expect(answer.output.every(({ ended, skipped }) => ended && skipped === 0)).toBe(true);
});

test("a successful run has no failure", async () => {
  const answer = await fixture.client.exec({ body: { argv: ["true"] } });
  expect(answer).toMatchObject({ running: false, failure: null, run: { exit: { code: 0 } } });
});

test("a run that ends by a signal names it", async () => {
  const answer = await fixture.client.exec({ body: shellCommand("kill -TERM $$") });
  expect(answer).toMatchObject({ failure: "signal", run: { exit: { reason: "signal", signal: "SIGTERM" } } });
});

test("not found and not executable are different failures", async () => {
  const file = join(fixture.home, "plain.txt");
  await writeFile(file, "text");
  await chmod(file, 0o600);
  const missing = await fixture.client.exec({ body: { argv: ["/nowhere/at/all"] } });
  const plain = await fixture.client.exec({ body: { argv: [file] } });
  expect(missing).toMatchObject({ running: false, failure: "not-found", run: { state: "exited" } });
  expect(plain).toMatchObject({ running: false, failure: "not-executable", run: { state: "exited" } });
});

test("a missing working directory and a missing command are different failures", async () => {
  const cwd = join(fixture.home, "no-such-directory");
  const { failure, run } = await fixture.client.exec({ body: { argv: ["true"], cwd } });
  expect(failure).toBe("cwd-not-found");
  expect(run.exit).toMatchObject({ reason: "spawn-error", detail: expect.stringContaining(cwd) as string });
  const file = await fixture.client.exec({ body: { argv: ["true"], cwd: "/dev/null" } });
  expect(file.failure).toBe("cwd-not-found");
});

test("limits are enforced, and an unknown limit is bad input", async ({ skip }) => {
  const bad = fixture.client.exec({ body: { argv: ["true"], limits: { pids: 0 } } });
  expect(await errorOf(bad)).toMatchObject({ code: "BAD_INPUT", message: expect.stringContaining("pids") });
  if (whyNoLimits !== null) skip(whyNoLimits);
  const limits = { memoryBytes: 64 * 1024 ** 2, pids: 20, cpus: 1.5 };
  const answer = await fixture.client.exec({ body: { argv: ["true"], limits } });
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
  const answer = await fixture.client.exec({ body: { argv: ["sleep", "60"], graceMs: 0, ...limits } });
  expect(answer).toMatchObject({ running: false, failure, run: { exit: { reason: failure } } });
});

test("after yieldMs a run continues in the background, and the answer has its output so far", async () => {
  const answer = await fixture.client.exec({
    body: { ...shellCommand("echo early; sleep 0.6; echo late"), yieldMs: 250 },
  });
  expect(answer).toMatchObject({ running: true, failure: null });
  expect(outputText(answer)).toBe("early\n");
  const { runId } = answer.run;
  const record = await waitForRunEnd(fixture.client, runId);
  expect(record.exit).toMatchObject({ reason: "exit", code: 0 });
  const poll = await fixture.client.poll({ params: { runId } });
  expect(outputText(poll)).toBe("early\nlate\n");
});

test("a background run is answered at once", async () => {
  const before = performance.now();
  const { running, run } = await fixture.client.exec({
    body: { argv: ["sleep", "60"], background: true },
  });
  expect(running).toBe(true);
  expect(performance.now() - before).toBeLessThan(scaled(5_000));
  expect(await fixture.client.kill({ params: run, body: { graceMs: 0 } })).toMatchObject({
    outcome: "gone",
  });
});

test.for(["null", "pipe"] as const)("the given input is the whole input (stdin: %s)", async (stdin) => {
  const answer = await fixture.client.exec({
    body: { argv: ["cat"], stdin, input: "héllo", timeoutMs: 3_000, graceMs: 0 },
  });
  expect(answer.failure).toBeNull();
  expect(outputText(answer)).toBe("héllo");
});

test("a run without input reads end of file", async () => {
  expect(await fixture.client.exec({ body: { argv: ["cat"] } })).toMatchObject({ failure: null });
});

test("environment replaces the environment, env adds to it, cwd and umask apply", async () => {
  const answer = await fixture.client.exec({
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
  const answer = await fixture.client.exec({ body: { argv: ["true"], cwd: "/nowhere/at/all" } });
  expect(answer.running).toBe(false);
  expect(answer.run.exit?.reason).toBe("spawn-error");
});

test("a waiting caller that disconnects cancels its run", async () => {
  const left = new AbortController();
  const labels = { who: "vanishing" };
  const answer = fixture.client.exec({ body: { argv: ["sleep", "60"], labels, graceMs: 0 } }, left.signal);
  const find = () => fixture.client.listRuns({ query: { all: "1", label: "who=vanishing" } });
  await waitFor("it runs", async () => (await find()).runs[0]?.state === "running");
  left.abort();
  await expect(answer).rejects.toThrow();
  const [run] = (await find()).runs;
  const record = await waitForRunEnd(fixture.client, run?.runId ?? "");
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "operator (left)" });
});

test("a run that has yielded continues when its caller disconnects", async () => {
  const left = new AbortController();
  const { run } = await fixture.client.exec({ body: { argv: ["sleep", "60"], yieldMs: 10 } }, left.signal);
  left.abort();
  const { run: later } = await fixture.client.poll({ params: run, query: { waitMs: 200 } });
  expect(later.state).toBe("running");
  expect(await fixture.client.kill({ params: run, body: { graceMs: 0 } })).toMatchObject({
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
  const count = async () => (await fixture.client.listRuns({ query: { all: "1", limit: 1000 } })).runs.length;
  const before = await count();
  expect((await errorOf(fixture.client.exec({ body: body as never }))).code).toBe("BAD_INPUT");
  expect(await count()).toBe(before);
});

test("input on a PTY has an end", async () => {
  const answer = await fixture.client.exec({
    body: { argv: ["cat"], pty: true, input: "typed\n", timeoutMs: 3_000, graceMs: 0 },
  });
  expect(answer.failure).toBeNull();
  expect(outputText(answer)).toContain("typed\n");
});

test("a program that does not read its input delays the answer no longer than yieldMs", async () => {
  const before = performance.now();
  const body = { argv: ["sleep", "5"], input: "x".repeat(1_048_576), yieldMs: 100, graceMs: 0 };
  const { running, run } = await fixture.client.exec({ body });
  expect(running).toBe(true);
  expect(performance.now() - before).toBeLessThan(scaled(3_000));
  expect(await fixture.client.kill({ params: run, body: { graceMs: 0 } })).toMatchObject({
    outcome: "gone",
  });
});

test("all of a large input arrives", async () => {
  const answer = await fixture.client.exec({
    body: { argv: ["wc", "-c"], input: "x".repeat(1_048_576) },
  });
  expect(outputText(answer)).toBe("1048576\n");
});
