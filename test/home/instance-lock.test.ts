import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { InstanceLocked, StateUnusable } from "../../src/errors.js";
import { acquireInstanceLock, isInstanceLockFree } from "../../src/home/instance-lock.js";
import { startChild } from "../support/store/child-process.js";
import { temporaryDirectory, type TemporaryDirectory } from "../support/temporary-directory.js";

let directory: TemporaryDirectory;
let dir: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
  dir = join(directory.path, "instance-1");
  await mkdir(dir);
});
afterEach(() => directory[Symbol.asyncDispose]());

test("a second holder in the same process is refused, by name, until the first releases the lock", async () => {
  const lock = await acquireInstanceLock(dir);
  const second = acquireInstanceLock(dir);
  await expect(second).rejects.toBeInstanceOf(InstanceLocked);
  await expect(second).rejects.toMatchObject({ instanceId: "instance-1" });
  expect(await isInstanceLockFree(dir)).toBe(false);
  await lock[Symbol.asyncDispose]();
  await lock[Symbol.asyncDispose]();
  expect(await isInstanceLockFree(dir)).toBe(true);
  await (await acquireInstanceLock(dir))[Symbol.asyncDispose]();
});

test("a lock of another process excludes this one until it is released", async () => {
  await using holder = startChild("hold-lock", resolve("dist"), dir);
  expect(await holder.next()).toBe("held");
  expect(await isInstanceLockFree(dir)).toBe(false);
  await expect(acquireInstanceLock(dir)).rejects.toBeInstanceOf(InstanceLocked);
  holder.send("let go");
  await holder.ended;
  expect(await isInstanceLockFree(dir)).toBe(true);
});

test("a lock ends with its process, however the process ends", async () => {
  await using holder = startChild("hold-lock", resolve("dist"), dir);
  expect(await holder.next()).toBe("held");
  await holder.kill();
  expect(await isInstanceLockFree(dir)).toBe(true);
  await using lock = await acquireInstanceLock(dir);
  expect(lock).toBeDefined();
  expect(await isInstanceLockFree(dir)).toBe(false);
});

test("refused attempts and checks in this process do not release its lock", async () => {
  await using lock = await acquireInstanceLock(dir);
  expect(lock).toBeDefined();
  await acquireInstanceLock(dir).catch(() => {});
  await isInstanceLockFree(dir);
  await using rival = startChild("hold-lock", resolve("dist"), dir);
  expect(await rival.next()).toBe("INSTANCE_LOCKED");
});

test("one of eight processes gets the lock", async () => {
  const rivals = Array.from({ length: 8 }, () => startChild("hold-lock", resolve("dist"), dir));
  const answers = await Promise.all(rivals.map((rival) => rival.next()));
  await Promise.all(rivals.map((rival) => rival.kill()));
  expect(answers.filter((answer) => answer === "held")).toHaveLength(1);
  expect(answers.filter((answer) => answer === "INSTANCE_LOCKED")).toHaveLength(7);
});

test("a process that checks the lock continuously does not exclude a supervisor", async () => {
  let asking = true;
  const asker = (async () => {
    while (asking) await isInstanceLockFree(dir);
  })();
  for (let count = 0; count < 50; count += 1) await (await acquireInstanceLock(dir))[Symbol.asyncDispose]();
  asking = false;
  await asker;
});

test("checking an instance that does not exist creates nothing", async () => {
  expect(await isInstanceLockFree(dir)).toBe(true);
  expect(await isInstanceLockFree(join(dir, "missing"))).toBe(true);
  expect(await readdir(dir)).toEqual([]);
});

test("a directory that was removed with its dead instance can be created and locked again", async () => {
  const old = await acquireInstanceLock(dir);
  await rm(dir, { recursive: true });
  await mkdir(dir);
  await using lock = await acquireInstanceLock(dir);
  expect(lock).toBeDefined();
  await old[Symbol.asyncDispose]();
  expect(await isInstanceLockFree(dir)).toBe(false);
});

test("a file that is not a lock is refused", async () => {
  await writeFile(join(dir, "instance.lock"), "no lock of ours ".repeat(200));
  await expect(isInstanceLockFree(dir)).rejects.toBeInstanceOf(StateUnusable);
  await expect(acquireInstanceLock(dir)).rejects.toBeInstanceOf(StateUnusable);
  await expect(acquireInstanceLock(join(dir, "missing"))).rejects.toBeInstanceOf(StateUnusable);
});
