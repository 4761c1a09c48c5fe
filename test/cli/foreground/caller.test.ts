import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { PAIR } from "../field.js";
import { until } from "../../io/until.js";
import { refusal } from "../../gateway/real-gateway.js";
import { createClient } from "../../../src/gateway/client.js";
import { gatewaySocket } from "../../../src/gateway/server/listen.js";
import { main, sees } from "../stage.js";
import { House, PATIENT } from "./called.js";

const patient = "trap 'echo told; exit 9' TERM; echo up; while :; do sleep 0.05; done";

describe("a caller that vanishes", PATIENT, () => {
  test("takes its run with it, and all that the run started", async () => {
    await using house = await House.started();
    const { child, finished, runId } = await house.call("--grace", "300ms", "--", "sh", "-c", PAIR);
    expect(await house.membersOf(runId)).toHaveLength(3);
    child.kill("SIGKILL");
    await finished;
    const { exit, emptiness, policy } = await house.ended(runId);
    expect(exit).toMatchObject({ reason: "manual-cancel", actor: "caller (left)" });
    expect({ emptiness, bound: policy.callerBound }).toEqual({ emptiness: "proven", bound: true });
    expect(await house.membersOf(runId)).toEqual([]);
  });

  test("together with its gateway is waited for by the next one, but not for long; nor is one that never came", async () => {
    await using house = await House.started();
    const { child, runId } = await house.call("--", "sh", "-c", PAIR);
    child.kill("SIGKILL");
    await house.killGateway();
    await house.comeUp();
    const client = await house.client();
    const { run } = await client.exec({
      body: { argv: ["sleep", "7003"], foreground: { bufferBytes: 1024 } },
    });
    expect((await house.record(runId)).state).toBe("running");
    expect((await house.ended(runId, 45_000)).exit?.actor).toBe("caller (did not come back)");
    expect((await house.ended(run.runId)).exit?.actor).toBe("caller (never attached)");
    expect(await house.membersOf(runId)).toEqual([]);
  });
});

test("nobody else has a hand in a foreground run's input or output, but anybody may stop it", async () => {
  await using house = await House.started();
  const { finished, runId } = await house.call("--", "sh", "-c", patient);
  const client = await house.client();
  const params = { runId };
  expect(await refusal(client.write({ params, body: { text: "x" } }))).toMatchObject({
    code: "NOT_STEERING",
    message: expect.stringContaining("its caller's alone") as string,
  });
  expect((await client.kill({ params, body: { reason: "made room" } })).outcome).toBe("gone");
  const { code, stderr } = await finished;
  expect(code).toBe(9);
  expect(stderr).toMatch(/^holdfast: cancelled by operator \(made room\)$/m);
});

describe("gateway stop", PATIENT, () => {
  test("--runs terminate ends foreground runs; their callers get the last of the output and say why", async () => {
    await using house = await House.started();
    const { finished, runId } = await house.call("--", "sh", "-c", patient);
    const { stdout } = await house.holdfast("gateway", "stop", "--runs", "terminate");
    expect(stdout).toContain("runs: 1 terminated");
    const result = await finished;
    expect(result).toMatchObject({ code: 9, stdout: "up\ntold\n" });
    expect(result.stderr).toMatch(/^holdfast: cancelled by gateway:\S+$/m);
    expect((await house.record(runId)).exit).toMatchObject({ reason: "shutdown", code: 9 });
  });

  test("leaves them otherwise, and says so; the caller starts no other, but goes on with the next", async () => {
    await using house = await House.started();
    const { child, finished, runId } = await house.call(
      "--",
      "sh",
      "-c",
      "echo up; read line; echo $line; exit 5",
    );
    const { stdout } = await house.holdfast("gateway", "stop");
    expect(stdout).toContain("1 left to their anchors; 1 in the foreground, whose callers wait for the next");
    child.stdin.write("hello\n");
    // Longer than a caller waits before it replaces a gateway that was killed.
    await setTimeout(2_500);
    expect((await house.holdfast("gateway", "status")).code).toBe(1);
    await house.comeUp();
    expect(await finished).toMatchObject({
      code: 5,
      stdout: "up\nhello\n",
      stderr: expect.stringMatching(
        /^holdfast: the gateway was stopped; the command keeps running[^\n]*\n$/,
      ) as string,
    });
    expect((await house.record(runId)).exit).toMatchObject({ reason: "exit", code: 5 });
  });

  test("keeps nobody from stopping: without a gateway, Ctrl-C goes to the anchor", async () => {
    await using house = await House.started();
    const { child, finished, runId } = await house.call("--", "sh", "-c", patient);
    await house.stop();
    child.kill("SIGINT");
    const { code, stderr } = await finished;
    expect(code).toBe(130);
    expect(stderr).toContain(`run ${runId} is gone; the next gateway records its end`);
    expect(await house.membersOf(runId)).toEqual([]);
    await house.comeUp();
    expect((await house.ended(runId)).exit).toMatchObject({
      reason: "manual-cancel",
      actor: expect.stringMatching(/^cli:/) as string,
      code: 9,
    });
  });
});

describe("a gateway that stops", PATIENT, () => {
  test("slowly, because somebody does not say goodbye, is not taken for the next one", async () => {
    await using house = await House.started();
    const silent = await house.call("--", "sh", "-c", patient);
    const { child, finished } = await house.call("--", "sh", "-c", "echo up; read line; echo $line; exit 5");
    silent.child.kill("SIGSTOP");
    expect((await house.holdfast("gateway", "restart")).code).toBe(0);
    silent.child.kill("SIGCONT");
    child.stdin.write("hello\n");
    expect(await finished).toMatchObject({ code: 5, stdout: "up\nhello\n" });
    silent.child.kill("SIGINT");
    expect((await silent.finished).code).toBe(130);
  });
});

describe("a gateway that hangs", PATIENT, () => {
  test("keeps nobody from stopping: Ctrl-C goes to the anchor, and the caller leaves", async () => {
    await using house = await House.started();
    const { child, finished, runId } = await house.call("--", "sh", "-c", patient);
    const { pid } = await house.status();
    process.kill(pid, "SIGSTOP");
    try {
      child.kill("SIGINT");
      const { code, stderr } = await finished;
      expect(code).toBe(130);
      expect(stderr).toContain(`run ${runId} is gone`);
      expect(await house.membersOf(runId)).toEqual([]);
    } finally {
      process.kill(pid, "SIGCONT");
    }
    expect((await house.ended(runId)).exit).toMatchObject({ reason: "manual-cancel", code: 9 });
  });

  test("is not waited for by who insists on leaving before there is a run", async () => {
    await using house = await House.started();
    const { pid } = await house.status();
    process.kill(pid, "SIGSTOP");
    try {
      const { child, finished } = house.start("run", "--", "true");
      await until("it listens to signals", () => catchesHangup(child.pid ?? 0));
      for (const said of ["cancelling", "killing"]) {
        child.kill("SIGINT");
        await sees(child.stderr, said);
      }
      child.kill("SIGINT");
      expect((await finished).code).toBe(130);
    } finally {
      process.kill(pid, "SIGCONT");
    }
  });
});

/** Of itself, Node does not. */
async function catchesHangup(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return (BigInt(`0x${/SigCgt:\s+(\w+)/.exec(status)?.[1]}`) & 1n) === 1n;
}

test(
  "a limit that cannot be set is no failure of the gateway, and --json has the record",
  PATIENT,
  async () => {
    await using house = await House.open();
    const { child, finished } = house.startWith(
      { HOLDFAST_ANCHOR_WEAKEN: "controllers" },
      ...["run", "--json", "--cpus", "1", "--", "true"],
    );
    child.stdin.end();
    const { code, stdout, stderr } = await finished;
    expect(code).toBe(125);
    expect(stderr).toContain("cannot set a limit");
    expect(JSON.parse(stdout)).toMatchObject({ state: "exited", exit: { reason: "spawn-error" } });
    expect(await readFile(join(house.home, "gateway.log"), "utf8")).not.toContain("failed");
  },
);

test("a reader that stalls holds up the command, and fills neither its client nor the gateway", async () => {
  await using house = await House.started();
  const { pid } = await house.status();
  const before = await peakKb(pid);
  const { child, finished } = house.start(
    "run",
    "--buffer",
    "512K",
    "--",
    "sh",
    "-c",
    "yes | head -c 200M; yes >&2",
  );
  child.stdout.pause();
  child.stderr.pause();
  await until("the client is there", async () => (await house.status()).runs === 1);
  await setTimeout(2_000);
  expect(await peakKb(child.pid ?? 0)).toBeLessThan(160_000);
  expect((await peakKb(pid)) - before).toBeLessThan(64_000);
  child.kill("SIGTERM");
  child.stdout.resume();
  child.stderr.resume();
  expect((await finished).code).toBe(143);
});

async function peakKb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]);
}

test("a gateway that cannot be started is told in one line, and nothing is run", async () => {
  await using house = await House.open();
  await writeFile(join(house.home, "gateway-id"), "no id at all");
  const { code, stdout, stderr } = await house.holdfast("run", "--", "echo", "run");
  expect({ code, stdout }).toEqual({ code: 125, stdout: "" });
  expect(stderr).toMatch(/^holdfast: the gateway did not start: [^\n]*gateway-id[^\n]*\n$/);
});

describe("inside a run", () => {
  const inside = { HOLDFAST_RUN_ID: "run_000000000000", HOLDFAST_IN_PROCESS: undefined };

  test.each([
    ["run", ["run", "--", "true"], "--in-process"],
    ["gateway start", ["gateway", "start"], "not started from inside a run"],
    ["gateway run", ["gateway", "run"], "not run from inside a run"],
    ["gateway restart", ["gateway", "restart"], "not restarted from inside a run"],
  ] as const)("%s starts no gateway, and says what to do", async (_, args, sentence) => {
    await using house = await House.open();
    const { child, finished } = house.startWith(inside, ...args);
    child.stdin.end();
    const { code, stderr } = await finished;
    expect(code).toBe(125);
    expect(stderr).toMatch(/^holdfast: [^\n]+\n$/);
    expect(stderr).toContain(sentence);
    expect(await house.processes()).toEqual([]);
  });

  test("a session's command goes through the gateway, as the session's", async () => {
    await using house = await House.started();
    const client = await house.client();
    const { token } = await client.openSession({
      body: { key: "agent-1", execRules: [{ effect: "allow" }] },
    });
    const session = createClient({ socketPath: gatewaySocket(house.home), token });
    const { run, output } = await session.exec({
      body: {
        argv: [
          process.execPath,
          main,
          "run",
          "--",
          "sh",
          "-c",
          'echo "$HOLDFAST_SESSION_KEY $HOLDFAST_RUN_ID"',
        ],
        environment: { PATH: process.env["PATH"] ?? "", HOLDFAST_HOME: house.home },
      },
    });
    const [key, inner] = (output[0]?.text ?? "").trim().split(" ");
    expect({ code: run.exit?.code, key }).toEqual({ code: 0, key: "agent-1" });
    expect(inner).not.toBe(run.runId);
    expect(await house.record(inner ?? "")).toMatchObject({
      sessionKey: "agent-1",
      policy: { callerBound: true },
    });
  });

  test("--in-process works, but not for a session, unless as the operator", async () => {
    await using house = await House.open();
    const session = { ...inside, HOLDFAST_TOKEN: "hfs_x" };
    const run = async (env: NodeJS.ProcessEnv): Promise<number | null> => {
      const { child, finished } = house.startWith(env, "run", "--in-process", "--", "sh", "-c", "exit 3");
      child.stdin.end();
      return (await finished).code;
    };
    expect(
      await Promise.all([run(inside), run(session), run({ ...session, HOLDFAST_AS_OPERATOR: "1" })]),
    ).toEqual([3, 2, 3]);
  });
});
