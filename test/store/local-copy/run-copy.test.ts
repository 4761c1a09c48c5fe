import { mkdir, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { type CopiedRun, FileRunCopy } from "../../../src/store/local-copy/run-copy.js";
import { applyRunChange, newRunRecord } from "../../../src/store/runs/apply-change.js";
import { EXITED, newRun } from "../../support/store/run-samples.js";
import { temporaryDirectory } from "../../support/temporary-directory.js";

let path: string;
let localCopy: FileRunCopy;
beforeEach(async () => {
  const directory = await temporaryDirectory();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  path = join(directory.path, "ledger");
  localCopy = new FileRunCopy(path);
});

const open = (runId: string): CopiedRun => ({ record: newRunRecord(newRun({ runId }), 0), anchorEpoch: 1 });
const ended = (runId: string): CopiedRun => {
  const told = open(runId);
  return { ...told, record: applyRunChange(told.record, EXITED) };
};

test("a written copy is read by the next process, and an end replaces an open run", async () => {
  await localCopy.keep(open("one"));
  await localCopy.keep(open("two"));
  await localCopy.keep(ended("two"));
  const next = new FileRunCopy(path);
  expect((await next.runIds()).toSorted()).toEqual(["one", "two"]);
  expect(await next.get("one")).toEqual(open("one"));
  expect(await next.get("two")).toEqual(ended("two"));
  expect(await next.get("three")).toBeNull();
  expect(await readdir(path)).toHaveLength(2);
});

test("a copy in memory is known only to this process", async () => {
  localCopy.keepInMemory(open("one"));
  expect(await localCopy.get("one")).toEqual(open("one"));
  expect(await new FileRunCopy(path).get("one")).toBeNull();
});

test("the last of concurrent writes for one run stays", async () => {
  const epochs = Array.from({ length: 20 }, (_, at) => at + 1);
  await Promise.all(epochs.map((anchorEpoch) => localCopy.keep({ ...open("one"), anchorEpoch })));
  expect(await new FileRunCopy(path).get("one")).toMatchObject({ anchorEpoch: 20 });
});

test("copies of ended runs are deleted on request and after a day; those of open runs are not", async () => {
  await localCopy.keep(ended("first"));
  await localCopy.keep(ended("old"));
  await localCopy.keep(open("open"));
  const before = (Date.now() - defaults.ledgerEndsKeptMs - 1_000) / 1_000;
  for (const name of ["old.ended.json", "open.json"]) await utimes(join(path, name), before, before);
  const next = new FileRunCopy(path);
  // The first end of a process looks for those that are too old.
  await next.keep(ended("new"));
  await next.deleteEnded(["first", "open"]);
  expect((await next.runIds()).toSorted()).toEqual(["new", "open"]);
});

test("a damaged copy counts as missing", async () => {
  await localCopy.keep(open("one"));
  await writeFile(join(path, "one.json"), "{");
  expect(await new FileRunCopy(path).get("one")).toBeNull();
});

test("an end that a crash left half written does not hide the open run, and is replaced", async () => {
  await localCopy.keep(open("one"));
  await writeFile(join(path, "one.ended.json"), '{"record":{');
  const next = new FileRunCopy(path);
  expect(await next.get("one")).toEqual(open("one"));
  await next.keep(ended("one"));
  expect(await new FileRunCopy(path).get("one")).toEqual(ended("one"));
  expect(await readdir(path)).toEqual(["one.ended.json"]);
});

test("a failed write leaves no file", async () => {
  await mkdir(join(path, "one.json"), { recursive: true });
  await expect(localCopy.keep(open("one"))).rejects.toThrow();
  expect(await readdir(path)).toEqual(["one.json"]);
});
