import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TWO_PROCESSES } from "../../support/cli/recovery-fixture.js";
import { errorOf } from "../../support/gateway/real-gateway.js";
import { createClient } from "../../../src/api/client.js";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { cliPath, waitForText } from "../../support/cli/cli-fixture.js";
import { ForegroundFixture, LONG_TIMEOUT } from "../../support/cli/foreground-fixture.js";
import { waitFor } from "../../support/wait-for.js";

const patient = "trap 'echo stopped; exit 9' TERM; echo up; while :; do sleep 0.05; done";
const echoing = "echo up; read line; echo $line; exit 5";

/** The tests share one gateway. Each leaves one that runs. */
describe("a foreground run", LONG_TIMEOUT, () => {
  let fixture: ForegroundFixture;
  beforeAll(async () => {
    fixture = await ForegroundFixture.started();
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  test("whose client is killed ends with every process it started", async () => {
    const { child, finished, runId } = await fixture.startForeground(TWO_PROCESSES, "--grace", "300ms");
    expect(await fixture.membersOf(runId)).toHaveLength(3);
    child.kill("SIGKILL");
    await finished;
    const { exit, emptiness, policy } = await fixture.waitForEnd(runId);
    expect(exit).toMatchObject({ reason: "manual-cancel", actor: "caller (left)" });
    expect({ emptiness, bound: policy.callerBound }).toEqual({ emptiness: "proven", bound: true });
    expect(await fixture.membersOf(runId)).toEqual([]);
  });

  test("takes input from its client alone, but other requesters may stop it", async () => {
    const { finished, runId } = await fixture.startForeground(patient);
    const client = await fixture.client();
    const params = { runId };
    expect(await errorOf(client.write({ params, body: { text: "x" } }))).toMatchObject({
      code: "NOT_STEERING",
      message: expect.stringContaining("only its caller may write to it") as string,
    });
    expect((await client.kill({ params, body: { reason: "made room" } })).outcome).toBe("gone");
    const { code, stderr } = await finished;
    expect(code).toBe(9);
    expect(stderr).toMatch(/^holdfast: stopped by operator \(made room\)$/m);
  });

  test("is blocked by a reader that stalls, and uses no memory of client and gateway", async () => {
    const { pid } = await fixture.status();
    const before = await peakKb(pid);
    const { child, finished } = fixture.start(
      ...["run", "--buffer", "512K", "--", "sh", "-c", "yes | head -c 200M; yes >&2"],
    );
    child.stdout.pause();
    child.stderr.pause();
    await waitFor("the run has started", async () => (await fixture.status()).runs === 1);
    await setTimeout(2_000);
    expect(await peakKb(child.pid ?? 0)).toBeLessThan(160_000);
    expect((await peakKb(pid)) - before).toBeLessThan(64_000);
    child.kill("SIGTERM");
    child.stdout.resume();
    child.stderr.resume();
    expect((await finished).code).toBe(143);
  });

  test("inside a run of a session goes through the gateway, for that session", async () => {
    const client = await fixture.client();
    const { token } = await client.openSession({
      body: { key: "agent-1", execRules: [{ effect: "allow" }] },
    });
    const session = createClient({ socketPath: gatewaySocketPath(fixture.home), token });
    const words = ["run", "--", "sh", "-c", 'echo "$HOLDFAST_SESSION_KEY $HOLDFAST_RUN_ID"'];
    const { run, output } = await session.exec({
      body: {
        argv: [process.execPath, cliPath, ...words],
        environment: { PATH: process.env["PATH"] ?? "", HOLDFAST_HOME: fixture.home },
      },
    });
    const [key, inner] = (output[0]?.text ?? "").trim().split(" ");
    expect({ code: run.exit?.code, key }).toEqual({ code: 0, key: "agent-1" });
    expect(inner).not.toBe(run.runId);
    expect(await fixture.record(inner ?? "")).toMatchObject({
      sessionKey: "agent-1",
      policy: { callerBound: true },
    });
  });

  test("of a gateway that hangs can be interrupted, also before it has started", async () => {
    const { child, finished, runId } = await fixture.startForeground(patient);
    const { pid } = await fixture.status();
    process.kill(pid, "SIGSTOP");
    try {
      child.kill("SIGINT");
      const { code, stderr } = await finished;
      expect(code).toBe(130);
      expect(stderr).toContain(`run ${runId} is gone`);
      expect(await fixture.membersOf(runId)).toEqual([]);

      const waiting = fixture.start("run", "--", "true");
      await waitFor("it handles SIGHUP", () => catchesHangup(waiting.child.pid ?? 0));
      for (const said of ["stopping", "killing"]) {
        waiting.child.kill("SIGINT");
        await waitForText(waiting.child.stderr, said);
      }
      waiting.child.kill("SIGINT");
      expect((await waiting.finished).code).toBe(130);
    } finally {
      process.kill(pid, "SIGCONT");
    }
    expect((await fixture.waitForEnd(runId)).exit).toMatchObject({ reason: "manual-cancel", code: 9 });
  });

  test("is not lost when a gateway stops slowly, because a client does not close its connection", async () => {
    const silent = await fixture.startForeground(patient);
    const { child, finished } = await fixture.startForeground(echoing);
    silent.child.kill("SIGSTOP");
    expect((await fixture.holdfast("gateway", "restart")).code).toBe(0);
    silent.child.kill("SIGCONT");
    child.stdin.write("hello\n");
    expect(await finished).toMatchObject({ code: 5, stdout: "up\nhello\n" });
    silent.child.kill("SIGINT");
    expect((await silent.finished).code).toBe(130);
  });

  test("is left by gateway stop: its client starts no gateway, stops the run at its anchor, and continues with the next gateway", async () => {
    const stopped = await fixture.startForeground(patient);
    const { child, finished, runId } = await fixture.startForeground(echoing);
    const { stdout } = await fixture.holdfast("gateway", "stop");
    expect(stdout).toContain("2 left to their anchors; 2 in the foreground, whose callers wait for the next");
    child.stdin.write("hello\n");
    stopped.child.kill("SIGINT");
    const { code, stderr } = await stopped.finished;
    expect(code).toBe(130);
    expect(stderr).toContain(`run ${stopped.runId} is gone; the next gateway records its end`);
    expect(await fixture.membersOf(stopped.runId)).toEqual([]);
    // Longer than a client waits before it replaces a gateway that was killed.
    await setTimeout(2_500);
    expect(await reachGateway(fixture.home)).toBeNull();
    await fixture.startGateway();
    expect(await finished).toMatchObject({
      code: 5,
      stdout: "up\nhello\n",
      stderr: expect.stringMatching(
        /^holdfast: the gateway was stopped; the command keeps running[^\n]*\n$/,
      ) as string,
    });
    expect((await fixture.record(runId)).exit).toMatchObject({ reason: "exit", code: 5 });
    expect((await fixture.waitForEnd(stopped.runId)).exit).toMatchObject({
      reason: "manual-cancel",
      actor: expect.stringMatching(/^cli:/) as string,
      code: 9,
    });
  });

  test("whose client and gateway are killed is ended by the next gateway after a short wait", async () => {
    const { child, runId } = await fixture.startForeground(TWO_PROCESSES);
    child.kill("SIGKILL");
    await fixture.killGateway();
    await fixture.gateway({}, { callerReturnMs: 1_000 });
    const client = await fixture.client();
    const { run } = await client.exec({
      body: { argv: ["sleep", "7003"], foreground: { bufferBytes: 1024 } },
    });
    expect((await fixture.waitForEnd(runId)).exit?.actor).toBe("caller (did not come back)");
    expect((await fixture.waitForEnd(run.runId)).exit?.actor).toBe("caller (never attached)");
    expect(await fixture.membersOf(runId)).toEqual([]);
  });

  test("is ended by gateway stop --runs terminate; its client prints the last output and the reason", async () => {
    const { finished, runId } = await fixture.startForeground(patient);
    const { stdout } = await fixture.holdfast("gateway", "stop", "--runs", "terminate");
    expect(stdout).toContain("runs: 1 terminated");
    const result = await finished;
    expect(result).toMatchObject({ code: 9, stdout: "up\nstopped\n" });
    expect(result.stderr).toMatch(/^holdfast: stopped by gateway:\S+$/m);
    expect((await fixture.record(runId)).exit).toMatchObject({ reason: "shutdown", code: 9 });
  });
});

/** Node itself does not handle SIGHUP. */
async function catchesHangup(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return (BigInt(`0x${/SigCgt:\s+(\w+)/.exec(status)?.[1]}`) & 1n) === 1n;
}

async function peakKb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]);
}

test(
  "a limit that cannot be set is no failure of the gateway, and --json prints the record",
  LONG_TIMEOUT,
  async () => {
    await using fixture = await ForegroundFixture.open();
    const { child, finished } = fixture.startWith(
      { HOLDFAST_ANCHOR_WEAKEN: "controllers" },
      ...["run", "--json", "--cpus", "1", "--", "true"],
    );
    child.stdin.end();
    const { code, stdout, stderr } = await finished;
    expect(code).toBe(125);
    expect(stderr).toContain("cannot set a limit");
    expect(JSON.parse(stdout)).toMatchObject({ state: "exited", exit: { reason: "spawn-error" } });
    expect(await readFile(join(fixture.home, "gateway.log"), "utf8")).not.toContain("failed");
  },
);

test("a gateway that cannot be started is reported in one line, and nothing is run", async () => {
  await using fixture = await ForegroundFixture.open();
  await writeFile(join(fixture.home, "gateway-id"), "no id at all");
  const { code, stdout, stderr } = await fixture.holdfast("run", "--", "echo", "run");
  expect({ code, stdout }).toEqual({ code: 125, stdout: "" });
  expect(stderr).toMatch(/^holdfast: the gateway did not start: [^\n]*gateway-id[^\n]*\n$/);
});

describe("inside a run", () => {
  const inside = { HOLDFAST_RUN_ID: "run_000000000000", HOLDFAST_IN_PROCESS: undefined };

  test("a command starts no gateway, and prints what to do", async () => {
    await using fixture = await ForegroundFixture.open();
    for (const [words, status, sentence] of [
      ["run -- true", 125, "--in-process"],
      ["gateway start", 1, "cannot be started from inside a run"],
      ["gateway run", 1, "cannot be run from inside a run"],
      ["gateway restart", 1, "cannot be restarted from inside a run"],
    ] as const) {
      const { child, finished } = fixture.startWith(inside, ...words.split(" "));
      child.stdin.end();
      const { code, stderr } = await finished;
      expect(code, words).toBe(status);
      expect(stderr).toMatch(/^holdfast: [^\n]+\n$/);
      expect(stderr).toContain(sentence);
      expect(await fixture.processes()).toEqual([]);
    }
  });

  test("--in-process works for the operator, and is refused for a session", async () => {
    await using fixture = await ForegroundFixture.open();
    const session = { ...inside, HOLDFAST_TOKEN: "hfs_x" };
    const run = async (env: NodeJS.ProcessEnv): Promise<number | null> => {
      const { child, finished } = fixture.startWith(env, "run", "--in-process", "--", "sh", "-c", "exit 3");
      child.stdin.end();
      return (await finished).code;
    };
    expect(
      await Promise.all([run(inside), run(session), run({ ...session, HOLDFAST_AS_OPERATOR: "1" })]),
    ).toEqual([3, 2, 3]);
  });
});
