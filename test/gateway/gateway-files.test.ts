import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { findWaitingGateway, removeWaitFile, writeWaitFile } from "../../src/gateway/gateway-files.js";
import { acquireInstanceLock } from "../../src/home/instance-lock.js";
import { temporaryDirectory } from "../support/temporary-directory.js";

test("a reused pid does not count as the gateway that waited for its store", async () => {
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
