import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { basename, dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readProcess, signalProcess, type LiveProcess } from "../../support/live-processes.js";
import { ForegroundFixture, LONG_TIMEOUT } from "../../support/cli/foreground-fixture.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { scaled, soak } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

/** On a new connection. */
async function answersAgain(place: BackgroundGateway): Promise<void> {
  const answers = async (): Promise<boolean> => (await reachGateway(place.home).catch(() => null)) !== null;
  await waitFor("the gateway answers again", answers, 30_000);
}

/** Stops the process of the gateway, and continues it at the end. */
async function stopped(place: BackgroundGateway): Promise<{ readonly one: LiveProcess } & AsyncDisposable> {
  const { pid } = await place.status();
  const one = readProcess(pid);
  if (one === null) throw new Error("the gateway is gone");
  signalProcess(one, "SIGSTOP");
  await waitFor("it is stopped", () => readProcess(pid)?.state === "T");
  return { one, [Symbol.asyncDispose]: async () => signalProcess(one, "SIGCONT") };
}

type Damage = (path: string) => Promise<unknown>;

const deadSocket: Damage = async (path) => {
  await rm(path);
  const script = `require("node:net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))`;
  const child = spawn(process.execPath, ["-e", script, path], { stdio: "ignore" });
  await once(child, "exit");
};

const directoryAway: Damage = async (path) => {
  const home = dirname(path);
  const away = `${home}-away`;
  await rename(home, away);
  await rm(join(away, basename(path)));
  await setTimeout(defaults.socketCheckMs + 500);
  await rename(away, home);
};

describe.concurrent("a gateway whose socket is lost", LONG_TIMEOUT, () => {
  test("creates it again, and keeps its connections", async () => {
    await using fixture = await ForegroundFixture.started();
    const { child, finished } = await fixture.startForeground("echo up; read line; echo $line; exit 5");
    const { pid } = await fixture.status();
    const path = gatewaySocketPath(fixture.home);
    for (const damage of [
      () => rm(path),
      () => rm(path).then(() => writeFile(path, "not a socket")),
      () => deadSocket(path),
      () => directoryAway(path),
    ]) {
      await damage();
      await answersAgain(fixture);
      expect((await fixture.status()).pid).toBe(pid);
    }
    child.stdin.write("hello\n");
    expect(await finished).toMatchObject({ code: 5, stdout: "up\nhello\n", stderr: "" });
    expect(await readFile(join(fixture.home, "gateway.log"), "utf8")).toContain("gateway.sock");

    // It does not take the path from another process that listens there.
    await rm(path);
    const other = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => other.listen(path, resolve));
    await setTimeout(2 * defaults.socketCheckMs + 500);
    expect((await fixture.holdfast("gateway", "status")).code).toBe(3);
    await new Promise((resolve) => other.close(resolve));
    await answersAgain(fixture);
    expect((await fixture.status()).pid).toBe(pid);
  });

  test("is waited for by gateway restart and gateway stop", async () => {
    await using place = await BackgroundGateway.started();
    await place.startScript("sleep 7021");
    for (const [verb, said] of [
      ["restart", / is down; runs: 1 left to their anchors\nstarted: .* 1 open run, /],
      ["stop", /^gateway in_\w{8} is down; runs: 1 left to their anchors\n$/],
    ] as const) {
      await rm(gatewaySocketPath(place.home));
      const { code, stdout, stderr } = await place.holdfast("gateway", verb);
      expect(code, stderr).toBe(0);
      expect(stdout).toMatch(said);
    }
  });
});

describe.concurrent("a gateway that does not answer", LONG_TIMEOUT, () => {
  test("is distinguished from one that does not run, and only stop and restart end it", async () => {
    await using place = await BackgroundGateway.started();
    const runId = await place.startScript("sleep 7022");
    const { instanceId } = await place.status();
    await using held = await stopped(place);
    const { pid, startTime } = held.one;
    const began = performance.now();
    const status = await place.holdfast("gateway", "status");
    expect(performance.now() - began).toBeLessThan(scaled(defaults.gatewayAnswerMs + 10_000));
    expect(status).toMatchObject({ code: 3, stdout: "" });
    expect(status.stderr).toContain(`gateway ${instanceId} (pid ${pid}) does not answer`);
    expect(status.stderr).toContain("holdfast gateway stop");
    const [json, start, drain] = await Promise.all([
      place.holdfast("gateway", "status", "--json"),
      place.holdfast("gateway", "start"),
      place.holdfast("gateway", "stop", "--runs", "drain"),
    ]);
    expect(JSON.parse(json.stdout)).toMatchObject({ running: true, reachable: false, instanceId, pid });
    expect(start).toMatchObject({ code: 125, stdout: "" });
    expect(start.stderr).toContain(`(pid ${pid}) does not answer`);
    expect((await place.processes()).filter((line) => line.includes("gateway run"))).toHaveLength(1);
    expect(drain.code).toBe(3);
    expect(drain.stderr).toContain("nothing was done");

    // It is not signalled when its process cannot be verified.
    const bystander = spawn("sleep", ["3600"], { stdio: "ignore" });
    const path = join(place.home, "instances", instanceId, "gateway.json");
    const noted = JSON.parse(await readFile(path, "utf8")) as object;
    await writeFile(path, JSON.stringify({ ...noted, pid: bystander.pid }));
    const unverified = await place.holdfast("gateway", "stop");
    expect(unverified.code).toBe(3);
    expect(unverified.stderr).toContain("the gateway was not signalled");
    expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
    await writeFile(path, JSON.stringify(noted));
    bystander.kill("SIGKILL");
    await once(bystander, "exit");
    expect(readProcess(pid)).toMatchObject({ startTime });

    // Also when its socket is gone.
    await rm(gatewaySocketPath(place.home));
    const words = `gateway ${instanceId} (pid ${pid}) runs, but cannot be reached`;
    expect((await place.holdfast("gateway", "status")).stderr).toContain(words);
    const { checks } = await place.json<{ checks: { name: string; state: string; detail: string }[] }>(
      "doctor",
    );
    expect(checks.find(({ name }) => name === "gateway")).toMatchObject({
      state: "warn",
      detail: expect.stringContaining(words) as string,
    });

    const restarted = await place.holdfast("gateway", "restart");
    expect(restarted.code, restarted.stderr).toBe(0);
    const after = await place.status();
    expect(after.pid).not.toBe(pid);
    expect(after.runs).toBe(1);
    expect(await place.record(runId)).toMatchObject({ state: "running" });

    await using again = await stopped(place);
    const { code, stdout, stderr } = await place.holdfast("gateway", "stop");
    expect(code, stderr).toBe(0);
    expect(stdout).toContain(`did not answer and was ended by a signal (pid ${again.one.pid})`);
    await waitFor("it is gone", () => readProcess(again.one.pid)?.startTime !== again.one.startTime);
    expect(await place.record(runId)).toMatchObject({ state: "running" });
    expect(await place.membersOf(runId)).not.toEqual([]);
  });

  test("because it cannot prove that it knows the token, is sent nothing and is replaced by gateway restart", async () => {
    await using place = await BackgroundGateway.started();
    const runId = await place.startScript("sleep 7024");
    const { pid } = await place.status();
    // To this client the gateway does not know the token.
    await writeFile(join(place.home, "operator-token"), `hfo_${"x".repeat(43)}\n`);
    const listed = await place.holdfast("process", "list");
    expect(listed.code).toBe(125);
    expect(listed.stderr).toContain("did not prove that it knows the token");
    const status = await place.holdfast("gateway", "status");
    expect(status.code).toBe(3);
    expect(status.stderr).toContain(
      `(pid ${pid}) runs, but the process that listens on ${gatewaySocketPath(place.home)} did not prove`,
    );
    const { code, stdout, stderr } = await place.holdfast("gateway", "restart");
    expect(code, stderr).toBe(0);
    expect(stdout).toContain(`was ended by a signal (pid ${pid})`);
    expect(await place.record(runId)).toMatchObject({ state: "running" });
  });
});

/** Applied to the gateway before the command. */
type Fault = (place: BackgroundGateway) => Promise<AsyncDisposable>;

const none: AsyncDisposable = { [Symbol.asyncDispose]: async () => {} };

const killed: Fault = async (place) => {
  const { pid } = await place.status();
  const one = readProcess(pid);
  if (one === null) throw new Error("the gateway is gone");
  signalProcess(one, "SIGKILL");
  await waitFor("it is gone", () => readProcess(pid)?.startTime !== one.startTime);
  return none;
};

/** The store cannot be read, and the gateway is dead. */
const killedWithoutStore: Fault = async (place) => {
  await killed(place);
  for (const rest of ["-wal", "-shm"]) await rm(`${place.store}${rest}`, { force: true });
  await writeFile(place.store, "garbage".repeat(3_000));
  return none;
};

/** The bound of the command, plus its start on a loaded machine. */
const BOUND_MS = defaults.stopBoundMs + 5_000;

describe.concurrent("gateway stop --runs terminate", LONG_TIMEOUT, () => {
  test.each<[string, Fault, string]>([
    ["is stopped", stopped, "did not answer and was ended by a signal"],
    ["was killed", killed, "no gateway is running"],
  ])("ends its task and its service, and nothing else, when the gateway %s", async (_, fault, words) => {
    await using place = await BackgroundGateway.started();
    const { pid } = await place.status();
    const task = await place.startScript("setsid sleep 7024 & sleep 7025 & echo up; wait");
    const service = await place.startRun({ argv: ["sleep", "7026"], kind: "service" });
    await place.waitForOutput(task, "up");
    await using _fault = await fault(place);
    const [other = ""] = await place.leaveRuns(["echo up; sleep 7027"]);
    const bystander = spawn("sleep", ["3600"], { stdio: "ignore" });
    const began = performance.now();
    const { code, stdout, stderr } = await place.holdfast("gateway", "stop", "--runs", "terminate");
    expect(performance.now() - began).toBeLessThan(scaled(BOUND_MS));
    expect(code, stdout + stderr).toBe(0);
    for (const runId of [task, service]) {
      expect(stdout).toMatch(new RegExp(`^${runId} is gone \\(manual-cancel .*proven empty\\)$`, "m"));
      expect(await place.membersOf(runId)).toEqual([]);
    }
    expect(stdout + stderr).toContain(words);
    expect(stdout + stderr).not.toMatch(/left to their anchors|go on under their anchors/);
    expect(readProcess(pid)?.argv ?? []).not.toContain("gateway");
    expect(stdout).not.toContain(other);
    expect(await place.membersOf(other)).not.toEqual([]);
    expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
    bystander.kill("SIGKILL");
    await once(bystander, "exit");
    await place.holdfast("runs", "cancel", other, "--kill");
  });

  test("finds the runs by their directories when the store cannot be read either", async () => {
    await using place = await BackgroundGateway.started();
    const service = await place.startRun({ argv: ["sleep", "7030"], kind: "service" });
    await using _fault = await killedWithoutStore(place);
    const { code, stdout, stderr } = await place.holdfast("gateway", "stop", "--runs", "terminate", "--json");
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ running: false, runs: [{ runId: service, outcome: "gone" }] });
    expect(await place.membersOf(service)).toEqual([]);
    await rm(place.store);
  });

  test.each<[string, Fault]>([
    ["answers", async () => none],
    ...(soak ? [["is stopped", stopped] as [string, Fault]] : []),
    ["was killed", killed],
  ])("names the survivors within its bound when the gateway %s", async (_, fault) => {
    await using place = await BackgroundGateway.started();
    const runId = await place.startRun({
      argv: ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 7028; done"],
      graceMs: 90_000,
    });
    await place.waitForOutput(runId, "up");
    const other = await place.startScript("sleep 7029");
    await using _fault = await fault(place);
    const began = performance.now();
    const { code, stdout, stderr } = await place.holdfast("gateway", "stop", "--runs", "terminate");
    expect(performance.now() - began).toBeLessThan(scaled(BOUND_MS));
    expect(code, stdout + stderr).toBe(3);
    expect(stdout).toMatch(new RegExp(`^${runId} has survivors:\\n  \\d+ sh `, "m"));
    expect(await place.membersOf(other)).toEqual([]);
    const { code: ended } = await place.holdfast("runs", "cancel", runId, "--kill");
    expect(ended).toBe(0);
  });
});
