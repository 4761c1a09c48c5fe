import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { gatewaySocket } from "../../src/gateway/server/listen.js";
import { until } from "../io/until.js";
import { look, signal, type Living } from "../tree/living.js";
import { House, PATIENT } from "./foreground/called.js";
import { Resident } from "./resident.js";

/** Asked by a process of its own: this one may have a connection from before. */
async function answersAgain(place: Resident): Promise<void> {
  const asked = async (): Promise<number | null> => (await place.holdfast("gateway", "status")).code;
  await until("the gateway answers again", async () => (await asked()) === 0, 30_000);
}

/** The gateway's process, stopped; it goes on at the end, if it is still there. */
async function stopped(place: Resident): Promise<{ readonly one: Living } & AsyncDisposable> {
  const { pid } = await place.status();
  const one = look(pid);
  if (one === null) throw new Error("the gateway is gone");
  signal(one, "SIGSTOP");
  await until("it is stopped", () => look(pid)?.state === "T");
  return { one, [Symbol.asyncDispose]: async () => signal(one, "SIGCONT") };
}

type Damage = (path: string) => Promise<unknown>;

const deadSocket: Damage = async (path) => {
  await rm(path);
  const script = `require("node:net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))`;
  const child = spawn(process.execPath, ["-e", script, path], { stdio: "ignore" });
  await once(child, "exit");
};

describe.concurrent("a gateway whose socket is lost", PATIENT, () => {
  test.each<[string, Damage]>([
    ["deleted", (path) => rm(path)],
    ["replaced by a file", async (path) => rm(path).then(() => writeFile(path, "not a socket"))],
    ["replaced by a socket that nobody listens on", deadSocket],
  ])("%s, makes it again, and keeps the connections that it has", async (_, damage) => {
    await using house = await House.started();
    const { child, finished } = await house.call("--", "sh", "-c", "echo up; read line; echo $line; exit 5");
    const { pid } = await house.status();
    await damage(gatewaySocket(house.home));
    await answersAgain(house);
    expect((await house.status()).pid).toBe(pid);
    child.stdin.write("hello\n");
    expect(await finished).toMatchObject({ code: 5, stdout: "up\nhello\n", stderr: "" });
    expect(await readFile(join(house.home, "gateway.log"), "utf8")).toContain("gateway.sock");
  });

  test("together with its directory for a while, makes it again when that is back", async () => {
    await using place = await Resident.started();
    const { pid } = await place.status();
    const away = `${place.home}-away`;
    await rename(place.home, away);
    await rm(gatewaySocket(away));
    await setTimeout(defaults.socketCheckMs + 500);
    await rename(away, place.home);
    await answersAgain(place);
    expect((await place.status()).pid).toBe(pid);
  });

  test("does not take the path from another process that listens there", async () => {
    await using place = await Resident.started();
    const { pid } = await place.status();
    const path = gatewaySocket(place.home);
    await rm(path);
    const other = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => other.listen(path, resolve));
    await setTimeout(2 * defaults.socketCheckMs + 500);
    expect((await place.holdfast("gateway", "status")).code).toBe(3);
    await new Promise((resolve) => other.close(resolve));
    await answersAgain(place);
    expect((await place.status()).pid).toBe(pid);
  });

  test.each([
    ["stop", /^gateway in_\w{8} is down; runs: 1 left to their anchors\n$/],
    ["restart", / is down; runs: 1 left to their anchors\nstarted: .* 1 open run, /],
  ])("is waited for by gateway %s", async (verb, said) => {
    await using place = await Resident.started();
    await place.script("sleep 7021");
    await rm(gatewaySocket(place.home));
    const { code, stdout, stderr } = await place.holdfast("gateway", verb);
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(said);
  });
});

describe.concurrent("a gateway that does not answer", PATIENT, () => {
  test.each([
    ["it is stopped", false, "does not answer"],
    ["it is stopped and its socket is gone", true, "runs, but cannot be reached"],
  ])("because %s, is told from one that does not run", async (_, withoutSocket, words) => {
    await using place = await Resident.started();
    const { instanceId } = await place.status();
    await using held = await stopped(place);
    if (withoutSocket) await rm(gatewaySocket(place.home));
    const { pid } = held.one;
    const began = performance.now();
    const status = await place.holdfast("gateway", "status");
    expect(performance.now() - began).toBeLessThan(defaults.gatewayAnswerMs + 10_000);
    expect(status).toMatchObject({ code: 3, stdout: "" });
    expect(status.stderr).toContain(`gateway ${instanceId} (pid ${pid}) ${words}`);
    expect(status.stderr).toContain("holdfast gateway stop");
    const json = await place.holdfast("gateway", "status", "--json");
    expect(JSON.parse(json.stdout)).toMatchObject({ running: true, reachable: false, instanceId, pid });
    const { checks } = await place.json<{ checks: { name: string; state: string; detail: string }[] }>(
      "doctor",
    );
    const check = checks.find(({ name }) => name === "gateway");
    expect(check).toMatchObject({ state: "warn" });
    expect(check?.detail).toContain(`gateway ${instanceId} (pid ${pid}) ${words}`);
  });

  test("gateway start waits for it for a limited time, and starts no second gateway", async () => {
    await using place = await Resident.started();
    await using held = await stopped(place);
    const { code, stdout, stderr } = await place.holdfast("gateway", "start");
    expect({ code, stdout }).toEqual({ code: 125, stdout: "" });
    expect(stderr).toContain(`(pid ${held.one.pid}) does not answer`);
    expect((await place.processes()).filter((line) => line.includes("gateway run"))).toHaveLength(1);
  });

  test("is ended by gateway stop, and its runs are left", async () => {
    await using place = await Resident.started();
    const runId = await place.script("sleep 7022");
    await using held = await stopped(place);
    const { code, stdout, stderr } = await place.holdfast("gateway", "stop");
    expect(code, stderr).toBe(0);
    expect(stdout).toContain(`did not answer and was ended by a signal (pid ${held.one.pid})`);
    await until("it is gone", () => look(held.one.pid)?.startTime !== held.one.startTime);
    expect(await place.record(runId)).toMatchObject({ state: "running" });
    expect(await place.membersOf(runId)).not.toEqual([]);
  });

  test("is replaced by gateway restart", async () => {
    await using place = await Resident.started();
    const runId = await place.script("sleep 7023");
    await using held = await stopped(place);
    const { code, stderr } = await place.holdfast("gateway", "restart");
    expect(code, stderr).toBe(0);
    const { pid, runs } = await place.status();
    expect(pid).not.toBe(held.one.pid);
    expect(runs).toBe(1);
    expect(await place.record(runId)).toMatchObject({ state: "running" });
  });

  test("is not ended by gateway stop --runs terminate", async () => {
    await using place = await Resident.started();
    await using held = await stopped(place);
    const { code, stderr } = await place.holdfast("gateway", "stop", "--runs", "terminate");
    expect(code).toBe(3);
    expect(stderr).toContain("nothing was done");
    expect(look(held.one.pid)).toMatchObject({ startTime: held.one.startTime });
  });

  test("is not signalled when its process cannot be verified", async () => {
    await using place = await Resident.started();
    const { instanceId } = await place.status();
    await using held = await stopped(place);
    const bystander = spawn("sleep", ["3600"], { stdio: "ignore" });
    const path = join(place.home, "instances", instanceId, "gateway.json");
    const noted = JSON.parse(await readFile(path, "utf8")) as object;
    await writeFile(path, JSON.stringify({ ...noted, pid: bystander.pid }));
    const { code, stderr } = await place.holdfast("gateway", "stop");
    expect(code).toBe(3);
    expect(stderr).toContain("nothing was signalled");
    expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
    expect(look(held.one.pid)).toMatchObject({ startTime: held.one.startTime });
    await writeFile(path, JSON.stringify(noted));
    bystander.kill("SIGKILL");
    await once(bystander, "exit");
  });
});
