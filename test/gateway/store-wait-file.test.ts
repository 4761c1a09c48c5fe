import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { writeWaitFile, removeWaitFile, findWaitingGateway } from "../../src/gateway/store-wait-file.js";
import { acquireInstanceLock } from "../../src/home/instance-lock.js";
import { temporaryDirectory } from "../support/temporary-directory.js";

test("a gateway that was killed while it waited is not taken for the process that has its number now", async () => {
  const directory = await temporaryDirectory();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  const home = directory.path;
  const waiting = { instanceId: "in_one", pid: process.pid, since: 0, why: "it is away", held: 0 };
  writeWaitFile(home, waiting);
  expect(await findWaitingGateway(home)).toBeNull();
  const instance = join(home, "instances", "in_one");
  await mkdir(instance, { recursive: true });
  const lock = await acquireInstanceLock(instance);
  expect(await findWaitingGateway(home)).toEqual(waiting);
  await lock[Symbol.asyncDispose]();
  expect(await findWaitingGateway(home)).toBeNull();
  removeWaitFile(home);
});
