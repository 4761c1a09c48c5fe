import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { RunScope } from "../../../src/anchor/host-interface.js";
import { encodeScope } from "../../../src/anchor/protocol/requests.js";
import { RunDirectories } from "../../../src/anchor/run-dir/run-directories.js";
import {
  parseExit,
  parseLeaderFile,
  parseStopFile,
  parseSurvivors,
  parseSweptFile,
} from "../../../src/anchor/run-dir/parse-run-files.js";
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

  test.each([
    ["cgroup+launcher+unique", "exit", false],
    ["subreaper+launcher+number", "exit", false],
    ["job+launcher+unique", "exit", false],
    ["job+launcher+unique", "lost", true],
    ["lineage+launcher+unique", "exit", true],
    ["group+launcher+number", "signal", true],
    ["groups", "exit", false],
    [null, "exit", false],
  ])("of the tier %s, with the reason %s, may be unproven: %s", (tier, reason, accepted) => {
    const nothing = { start: 0, end: 0, dropped: 0 };
    const end = {
      ...{ runId: "run_a", executed: true, reason, actor: "", requestId: "", leader: { code: 0 }, tier },
      ...{
        spawnError: null,
        residue: [],
        residueCount: 0,
        killMode: "none",
        stdout: nothing,
        stderr: nothing,
      },
      ...{ processes: 1, usage: { cpuMs: 1, peakKb: 1 }, durationMs: 1 },
    };
    expect(parseExit(JSON.stringify({ ...end, emptiness: "proven" }))?.emptiness).toBe("proven");
    const unproven = parseExit(JSON.stringify({ ...end, emptiness: "unproven" }));
    expect(unproven?.emptiness).toBe(accepted ? "unproven" : undefined);
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

const scope: RunScope = {
  sessionKey: "chat-7",
  sessionId: "ses_1",
  backendId: "acp",
  agentId: "codex",
  taskId: "task_1",
  labels: { ticket: "42" },
  kind: "task",
  command: "sh -c 'sleep 1'",
};

test("a scope that does not fit loses its command first, then its labels, and keeps its ids", () => {
  expect(JSON.parse(encodeScope(scope))).toEqual(scope);
  const command = "x".repeat(3_000);
  expect(JSON.parse(encodeScope({ ...scope, command }))).toEqual({ ...scope, command: "" });
  const labels = { long: "ä".repeat(1_500) };
  expect(JSON.parse(encodeScope({ ...scope, labels }))).toEqual({ ...scope, command: "", labels: {} });
  const sessionKey = "k".repeat(3_000);
  expect(JSON.parse(encodeScope({ ...scope, sessionKey }))).toMatchObject({
    taskId: "task_1",
    sessionKey: null,
  });
  for (const each of [{ command }, { labels }, { sessionKey }])
    expect(Buffer.byteLength(encodeScope({ ...scope, ...each }))).toBeLessThan(2_048);
});

test("a run directory has the scope of its run and the tasks that were assigned later", async () => {
  expect(await runs.readScope("run_a")).toBeNull();
  const file = join(run, "anchor.json");
  for (const broken of ["", "{}", '{"scope":""}', '{"scope":"{"}', '{"scope":"[]"}', '{"scope":{}}']) {
    await writeFile(file, broken);
    expect(await runs.readScope("run_a"), broken).toBeNull();
  }
  await writeFile(file, JSON.stringify({ scope: encodeScope(scope) }));
  await runs.addTask("run_a", "task_2");
  const { taskId, ...rest } = scope;
  const found = { ...rest, taskIds: [taskId, "task_2"] };
  // An older anchor did not record when a task became a service.
  expect(await runs.readScope("run_a")).toEqual({ ...found, kind: null });
  await writeFile(file, JSON.stringify({ scope: encodeScope({ ...scope, kind: "service" }) }));
  expect(await runs.readScope("run_a")).toEqual({ ...found, kind: "service" });
  for (const kind of ["task", "service"]) {
    await writeFile(file, JSON.stringify({ kind, scope: encodeScope(scope) }));
    expect(await runs.readScope("run_a")).toEqual({ ...found, kind });
  }
  await expect(runs.addTask("run_a", "../x")).rejects.toMatchObject({ code: "BAD_INPUT" });
});
