import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import { listMarkedProcesses, reapMarkedProcess } from "../../../src/anchor/inspect/marked-processes.js";
import { inspectProcesses } from "../../../src/anchor/inspect/processes.js";
import { BadInput } from "../../../src/errors.js";
import type { ProcessIdentity } from "../../../src/model/process.js";
import { plantBystander } from "../../support/bystander.js";

const anchor = findAnchorBinary();
const NAME = "OTHER_TOOL_MARKER";

/** The first output of each process. */
const firstWords = new WeakMap<ChildProcess, string>();

/** A process of another tool, which prints a line when it runs. */
async function stranger(script: string, env: NodeJS.ProcessEnv): Promise<ChildProcess> {
  const child = spawn("/bin/sh", ["-c", script], {
    stdio: ["pipe", "pipe", "ignore"],
    detached: true,
    env: { PATH: process.env["PATH"], ...env },
  });
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const left = once(child, "exit");
    child.kill("SIGKILL");
    await left;
  });
  const [said] = (await once(child.stdout, "data")) as [Buffer];
  firstWords.set(child, said.toString());
  return child;
}

async function identityOf({ pid = 0 }: { readonly pid?: number | undefined }): Promise<ProcessIdentity> {
  const [found] = await inspectProcesses(anchor, [pid]);
  if (found === undefined || !found.alive) throw new Error("it is not there");
  return found.identity;
}

async function isAlive(identity: ProcessIdentity): Promise<boolean> {
  return (await inspectProcesses(anchor, [identity]))[0]?.matches === true;
}

/** Random, because the same test may run twice on this machine. */
const value = (): string => `v${Math.random().toString(36).slice(2)}`;

const WAIT = "echo up; read line";

describe("processes with a marker", () => {
  test("are all listed with their identities, and no other process is", async () => {
    const mine = value();
    const one = await stranger(WAIT, { [NAME]: mine, EXTRA: "e", HOLDFAST_RUN_ID: "run_x" });
    const two = await stranger(WAIT, { [NAME]: `${mine}"\n\\` });
    await stranger(WAIT, { [`${NAME}_X`]: mine, [`X_${NAME}`]: mine });
    await stranger(WAIT, { NOTHING: `${NAME}=${mine}` });
    const found = (await listMarkedProcesses(anchor, NAME, ["EXTRA", "MISSING"])).filter((each) =>
      each.value.startsWith(mine),
    );
    const [self] = await inspectProcesses(anchor, [process.pid]);
    expect(found.toSorted((a, b) => a.value.length - b.value.length)).toEqual([
      {
        identity: await identityOf(one),
        value: mine,
        parentPid: process.pid,
        parent: self?.identity,
        uid: process.getuid?.(),
        command: "sh",
        argv: ["/bin/sh", "-c", WAIT],
        runId: "run_x",
        others: { EXTRA: "e", MISSING: null },
      },
      expect.objectContaining({
        identity: await identityOf(two),
        value: `${mine}"\n\\`,
        runId: null,
        others: { EXTRA: null, MISSING: null },
      }),
    ]);
  });

  test("are listed with a truncated value if it is long", async () => {
    const mine = value();
    await stranger(WAIT, { [NAME]: mine + "ü".repeat(50_000) });
    const [found] = (await listMarkedProcesses(anchor, NAME)).filter((each) => each.value.startsWith(mine));
    expect(Buffer.byteLength(found?.value ?? "")).toBeLessThan(4200);
  });

  test("cannot be listed by an invalid variable name", async () => {
    for (const name of ["", "A=B", "A B", "1A", "A-B", "A\nB", "--only", "Ä", "A".repeat(200), "A*"]) {
      await expect(listMarkedProcesses(anchor, name), name).rejects.toBeInstanceOf(BadInput);
      await expect(listMarkedProcesses(anchor, NAME, [name]), name).rejects.toBeInstanceOf(BadInput);
      if (name.includes("\0")) continue;
      const child = spawn(anchor, ["marked", name], { stdio: "ignore" });
      expect((await once(child, "exit"))[0], name).toBe(2);
    }
    await expect(listMarkedProcesses(anchor, NAME, Array(17).fill("A"))).rejects.toBeInstanceOf(BadInput);
  });
});

describe("ending one process of another tool", () => {
  test("ends neither its children nor another process with the same marker", async () => {
    const mine = value();
    plantBystander("sleep", ["3042"], { ...process.env, [NAME]: mine });
    const parent = await stranger("sleep 3042 & echo $!; wait", { [NAME]: mine });
    const child = await identityOf({ pid: Number(firstWords.get(parent)) });
    const identity = await identityOf(parent);
    const ended = once(parent, "exit");
    const result = await reapMarkedProcess(anchor, { identity, variable: NAME, value: mine, graceMs: 1000 });
    expect(result).toMatchObject({
      verified: true,
      killed: 1,
      residue: [],
      survivors: [],
      emptiness: "unproven",
    });
    expect((await ended)[1]).toBe("SIGTERM");
    expect(await isAlive(child)).toBe(true);
    process.kill(child.pid, "SIGKILL");
  });

  test("sends TERM to a stopped process too, and kills one that ignores TERM", async () => {
    const mine = value();
    const stopped = await stranger(WAIT, { [NAME]: mine });
    stopped.kill("SIGSTOP");
    const request = { variable: NAME, value: mine, graceMs: 5000 };
    const ended = once(stopped, "exit");
    await reapMarkedProcess(anchor, { identity: await identityOf(stopped), ...request });
    expect((await ended)[1]).toBe("SIGTERM");
    const deaf = await stranger("trap '' TERM; echo deaf; while :; do sleep 0.05; done", { [NAME]: mine });
    const killed = once(deaf, "exit");
    const result = await reapMarkedProcess(anchor, {
      ...request,
      identity: await identityOf(deaf),
      graceMs: 200,
    });
    expect(result).toMatchObject({ verified: true, killed: 1 });
    expect((await killed)[1]).toBe("SIGKILL");
  });

  test("touches nothing unless everything matches", async () => {
    const mine = value();
    const child = await stranger(WAIT, { [NAME]: mine });
    const identity = await identityOf(child);
    const request = { identity, variable: NAME, value: mine, graceMs: 0 };
    const wrong = [
      { ...request, value: `${mine}x` },
      { ...request, value: mine.slice(0, -1) },
      { ...request, variable: `${NAME}X` },
      { ...request, identity: { ...identity, startTime: identity.startTime + 1 } },
      { ...request, identity: { ...identity, uniqueId: "1" } },
      { ...request, identity: { ...identity, uniqueId: null } },
      { ...request, identity: { ...identity, uniqueId: "0" } },
    ];
    for (const each of wrong) {
      const result = await reapMarkedProcess(anchor, each);
      expect(result, JSON.stringify(each)).toMatchObject({ verified: false, killed: 0, survivors: [] });
      expect(result.why).not.toBe("");
    }
    await expect(reapMarkedProcess(anchor, { ...request, variable: "A=B" })).rejects.toBeInstanceOf(BadInput);
    await expect(reapMarkedProcess(anchor, { ...request, value: "" })).rejects.toBeInstanceOf(BadInput);
    expect(await isAlive(identity)).toBe(true);
  });

  test("touches nothing on a kernel without unique ids", async () => {
    const mine = value();
    const child = await stranger(WAIT, { [NAME]: mine });
    const identity = await identityOf(child);
    onTestFinished(() => void delete process.env["HOLDFAST_ANCHOR_WEAKEN"]);
    for (const weaken of ["inode", "pidfd"]) {
      process.env["HOLDFAST_ANCHOR_WEAKEN"] = weaken;
      const result = await reapMarkedProcess(anchor, { identity, variable: NAME, value: mine, graceMs: 0 });
      expect(result).toMatchObject({ verified: false, killed: 0, why: expect.stringContaining("refused") });
    }
    delete process.env["HOLDFAST_ANCHOR_WEAKEN"];
    expect(await isAlive(identity)).toBe(true);
  });

  test("does not touch its own process or an ancestor", async () => {
    const [self] = await inspectProcesses(anchor, [process.pid]);
    const identities = [self?.identity, ...(self?.ancestors ?? [])].filter((each) => each !== undefined);
    for (const identity of identities) {
      const result = await reapMarkedProcess(anchor, { identity, variable: "PATH", value: "x", graceMs: 0 });
      expect(result).toMatchObject({ verified: false, why: expect.stringContaining("refused") });
    }
  });

  test("does not touch a later process with the same pid and marker", async ({ skip }) => {
    const mine = value();
    const first = await stranger(WAIT, { [NAME]: mine });
    const identity = await identityOf(first);
    const left = once(first, "exit");
    first.kill("SIGKILL");
    await left;
    let second: ChildProcess | null = null;
    for (let tries = 0; tries < 20 && second?.pid !== identity.pid; tries += 1) {
      try {
        writeFileSync("/proc/sys/kernel/ns_last_pid", String(identity.pid - 1));
      } catch {
        skip("numbers cannot be chosen here");
      }
      second = await stranger(WAIT, { [NAME]: mine });
    }
    const now = await identityOf({ pid: second?.pid });
    if (now.pid !== identity.pid) skip("the number was not to be had");
    for (const asked of [identity, { ...identity, startTime: now.startTime }])
      expect(
        await reapMarkedProcess(anchor, { identity: asked, variable: NAME, value: mine, graceMs: 0 }),
      ).toMatchObject({ verified: false, killed: 0 });
    expect(await isAlive(now)).toBe(true);
  });
});
