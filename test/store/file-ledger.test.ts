import { mkdir, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { applyChange, newRecord } from "../../src/store/apply-change.js";
import { FileLedger } from "../../src/store/ledger/file-ledger.js";
import type { Told } from "../../src/store/ledger/ledger.js";
import { exited, newRun } from "./samples.js";
import { temporaryDirectory } from "./temporary-directory.js";

let path: string;
let ledger: FileLedger;
beforeEach(async () => {
  const directory = await temporaryDirectory();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  path = join(directory.path, "ledger");
  ledger = new FileLedger(path);
});

const open = (runId: string): Told => ({ record: newRecord(newRun({ runId }), 0), anchorEpoch: 1 });
const ended = (runId: string): Told => {
  const told = open(runId);
  return { ...told, record: applyChange(told.record, exited) };
};

test("what is kept is there for the next process, an end instead of what was open", async () => {
  await ledger.keep(open("one"));
  await ledger.keep(open("two"));
  await ledger.keep(ended("two"));
  const next = new FileLedger(path);
  expect((await next.runIds()).toSorted()).toEqual(["one", "two"]);
  expect(await next.get("one")).toEqual(open("one"));
  expect(await next.get("two")).toEqual(ended("two"));
  expect(await next.get("three")).toBeNull();
  expect(await readdir(path)).toHaveLength(2);
});

test("what is remembered is known here, and nowhere else", async () => {
  ledger.remember(open("one"));
  expect(await ledger.get("one")).toEqual(open("one"));
  expect(await new FileLedger(path).get("one")).toBeNull();
});

test("of many writes at once for one run, the last one told stays", async () => {
  const epochs = Array.from({ length: 20 }, (_, at) => at + 1);
  await Promise.all(epochs.map((anchorEpoch) => ledger.keep({ ...open("one"), anchorEpoch })));
  expect(await new FileLedger(path).get("one")).toMatchObject({ anchorEpoch: 20 });
});

test("ends are forgotten on purpose, and when they are a day old; what is open is not", async () => {
  await ledger.keep(ended("first"));
  await ledger.keep(ended("old"));
  await ledger.keep(open("open"));
  const before = (Date.now() - defaults.ledgerEndsKeptMs - 1_000) / 1_000;
  for (const name of ["old.ended.json", "open.json"]) await utimes(join(path, name), before, before);
  const next = new FileLedger(path);
  // The first end of a process looks for those that are too old.
  await next.keep(ended("new"));
  await next.forget(["first", "open"]);
  expect((await next.runIds()).toSorted()).toEqual(["new", "open"]);
});

test("a file that is damaged is as if it had not been kept", async () => {
  await ledger.keep(open("one"));
  await writeFile(join(path, "one.json"), "{");
  expect(await new FileLedger(path).get("one")).toBeNull();
});

test("what could not be written leaves nothing behind", async () => {
  await mkdir(join(path, "one.json"), { recursive: true });
  await expect(ledger.keep(open("one"))).rejects.toThrow();
  expect(await readdir(path)).toEqual(["one.json"]);
});
