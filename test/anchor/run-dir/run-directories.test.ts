import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { RunDirectories } from "../../../src/anchor/run-dir/run-directories.js";
import {
  parseExit,
  parseLeaderFile,
  parseStopFile,
  parseSurvivors,
  parseSweptFile,
} from "../../../src/anchor/run-dir/run-files.js";
import { BadInput } from "../../../src/errors.js";

let instanceDir: string;
let runs: RunDirectories;
let run: string;

beforeEach(async () => {
  instanceDir = await mkdtemp(join(tmpdir(), "holdfast-runs-"));
  runs = new RunDirectories(instanceDir);
  run = join(instanceDir, "runs", "run_a");
  await mkdir(run, { recursive: true });
});

afterEach(async () => {
  await rm(instanceDir, { recursive: true, force: true });
});

describe("the files of a run", () => {
  test("are null if there are none", async () => {
    const nothing = { exit: null, leader: null, firstStop: null, swept: null };
    expect(await runs.readRunFiles("run_a")).toEqual(nothing);
    expect(await runs.readRunFiles("run_never")).toEqual(nothing);
  });

  test("are parsed", async () => {
    await writeFile(join(run, "leader.json"), '{"signal":9}');
    await writeFile(
      join(run, "stop.json"),
      '{"reason":"manual-cancel","actor":"a","requestId":"r","later":1}',
    );
    await writeFile(
      join(run, "swept.json"),
      '{"runId":"run_a","anchorSignal":null,"anchorCode":1,"killed":2,"emptiness":"proven"}',
    );
    expect(await runs.readRunFiles("run_a")).toEqual({
      exit: null,
      leader: { code: null, signal: 9 },
      firstStop: { reason: "manual-cancel", actor: "a", requestId: "r" },
      swept: { anchorSignal: null, killed: 2, killMode: "pid", emptiness: "proven" },
    });
  });

  test.each(["", "{", "null", "[]", '{"code":"0"}', '{"code":-1}', '{"code":1.5}', "{}"])(
    "is not taken from a malformed file: %s",
    async (text) => {
      for (const name of ["exit", "leader", "stop", "swept"])
        await writeFile(join(run, `${name}.json`), text);
      expect(await runs.readRunFiles("run_a")).toEqual({
        exit: null,
        leader: null,
        firstStop: null,
        swept: null,
      });
    },
  );

  test("never make the parser throw, whatever JSON they contain", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        for (const parse of [parseExit, parseLeaderFile, parseStopFile, parseSweptFile, parseSurvivors])
          parse(text);
      }),
    );
  });
});

describe("run directories", () => {
  test("are listed by run id, and no other files are", async () => {
    await mkdir(join(instanceDir, "runs", ".hidden"));
    await writeFile(join(instanceDir, "runs", "file"), "");
    expect(await runs.list()).toEqual(["run_a"]);
    expect(await new RunDirectories(join(instanceDir, "none")).list()).toEqual([]);
  });

  test.each(["", ".", "..", "../x", "a/b", "a\0b", "-x", "A", "a b", "x".repeat(200)])(
    "%j is not a run id, and nothing is touched",
    async (id) => {
      await expect(runs.remove(id)).rejects.toBeInstanceOf(BadInput);
      await expect(runs.readRunFiles(id)).rejects.toBeInstanceOf(BadInput);
      await expect(runs.readKey(id)).rejects.toBeInstanceOf(BadInput);
      expect(await readdir(join(instanceDir, "runs"))).toEqual(["run_a"]);
    },
  );

  test("are removed completely, also repeatedly", async () => {
    await writeFile(join(run, "key"), "k");
    await mkdir(join(run, "odd", "deep"), { recursive: true });
    await runs.remove("run_a");
    await runs.remove("run_a");
    expect(await readdir(join(instanceDir, "runs"))).toEqual([]);
  });

  test("that are symbolic links are removed, not followed", async () => {
    const elsewhere = join(instanceDir, "elsewhere");
    await mkdir(elsewhere);
    await writeFile(join(elsewhere, "precious"), "");
    await symlink(elsewhere, join(instanceDir, "runs", "run_b"));
    await runs.remove("run_b");
    expect(await readdir(elsewhere)).toEqual(["precious"]);
    expect(await readdir(join(instanceDir, "runs"))).toEqual(["run_a"]);
  });
});
