import { readFile, readdir, readlink, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { StateUnusable } from "../../src/errors.js";
import { isSameClock } from "../../src/model/process.js";
import { persistentHostId, readMachineIdentity } from "../../src/home/machine-identity.js";
import { temporaryDirectory } from "../support/temporary-directory.js";

const known = { hostId: "h", bootId: "b", pidNamespace: "n", timeNamespace: null };
const linux = process.platform === "linux";

test.runIf(linux)("boot and pid namespace come from the kernel", async () => {
  await using home = await temporaryDirectory();
  const { bootId, pidNamespace } = await readMachineIdentity(home.path);
  expect(bootId).toBe((await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim());
  expect(pidNamespace).toBe(await readlink("/proc/self/ns/pid"));
});

test.runIf(linux)("the host id is stable and does not reveal the machine id", async () => {
  await using home = await temporaryDirectory();
  const { hostId } = await readMachineIdentity(home.path);
  expect(hostId).toMatch(/^[0-9a-f]{32}$/);
  expect((await readMachineIdentity(home.path)).hostId).toBe(hostId);
  const machineId = await readFile("/etc/machine-id", "utf8").catch(() => "");
  expect(hostId).not.toBe(machineId.trim());
});

test("facts from the caller are used as they are", async () => {
  expect(await readMachineIdentity("/nowhere", known)).toEqual(known);
});

test("without a machine id, a private host id is created, and concurrent processes agree on it", async () => {
  await using home = await temporaryDirectory();
  const ids = await Promise.all(Array.from({ length: 10 }, () => persistentHostId(home.path)));
  expect(new Set(ids).size).toBe(1);
  expect(await persistentHostId(home.path)).toBe(ids[0]);
  expect(await readdir(home.path)).toEqual(["host-id"]);
  expect((await stat(join(home.path, "host-id"))).mode & 0o777).toBe(0o600);
});

test("a host id that cannot be stored is an error", async () => {
  await using home = await temporaryDirectory();
  await expect(persistentHostId(join(home.path, "missing"))).rejects.toBeInstanceOf(StateUnusable);
});

test("start times are comparable between time namespaces with the same offsets; a record without one has no offset", () => {
  const of = (timeNamespace: string | null) => ({ timeNamespace });
  expect(isSameClock(of("time:[1]"), of("time:[2]"))).toBe(true);
  expect(isSameClock(of("time:[1]"), of("time:[1] boottime+1ns"))).toBe(false);
  expect(isSameClock(of("time:[1] boottime-1ns"), of("time:[2] boottime-1ns"))).toBe(true);
  expect(isSameClock(of("time:[1]"), of(null))).toBe(true);
  expect(isSameClock(of("time:[1] boottime+1ns"), of(null))).toBe(false);
});
