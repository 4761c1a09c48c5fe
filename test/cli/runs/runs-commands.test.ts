import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import { waitForText, CliFixture, type CliProcess } from "../../support/cli/cli-fixture.js";

/** A state directory with an ended run, one that left a process, and an open one. */
let cliFixture: CliFixture;
let live: CliProcess;

beforeAll(async () => {
  cliFixture = await CliFixture.open();
  await cliFixture.holdfast("run", "--label", "who=first", "--", "sh", "-c", "exit 3");
  await cliFixture.holdfast("run", "--label", "who=second", "--", "sh", "-c", "setsid sleep 60 & sleep 0.2");
  live = cliFixture.start("run", "--", "sh", "-c", "(setsid sleep 61 &); sleep 62 & echo ready; wait");
  await waitForText(live.child.stdout, "ready");
});
afterAll(async () => {
  live.child.kill("SIGTERM");
  await live.finished;
  await cliFixture[Symbol.asyncDispose]();
});

async function records(...args: readonly string[]): Promise<RunRecord[]> {
  const { stdout, code } = await cliFixture.holdfast("runs", "list", "--json", ...args);
  expect(code).toBe(0);
  return JSON.parse(stdout) as RunRecord[];
}

describe("runs list", () => {
  test("lists open runs; --all also ended ones, newest first", async () => {
    expect((await records()).map(({ state }) => state)).toEqual(["running"]);
    expect((await records("--all")).map(({ state }) => state)).toEqual(["running", "exited", "exited"]);
    expect((await records("--all")).map(({ labels }) => labels["who"])).toEqual([
      undefined,
      "second",
      "first",
    ]);
  });

  test("filters by state, label and limit", async () => {
    expect((await records("--state", "exited")).map(({ exit }) => exit?.reason)).toEqual([
      "ownership-escape",
      "exit",
    ]);
    expect((await records("--all", "--label", "who=first")).map(({ exit }) => exit?.code)).toEqual([3]);
    expect(await records("--all", "--limit", "1")).toHaveLength(1);
    expect(await records("--label", "who=nobody")).toEqual([]);
  });

  test("prints a table", async () => {
    const { stdout, stderr } = await cliFixture.holdfast("runs", "list", "--all", "--limit", "2");
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^RUN +STATUS +CREATED +TIME +PID +COMMAND$/);
    expect(lines[1]).toMatch(/^run_\w{12} +running .* \d+ +sh -c/);
    expect(lines[2]).toMatch(/^run_\w{12} +ownership-escape .* - +sh -c/);
    expect(stderr).toContain("there are more");
  });

  test("exits with 0 if its reader leaves", async () => {
    const { stdout, stderr } = await cliFixture.shell(
      "holdfast runs list --all | head -1; echo ${PIPESTATUS[0]}",
    );
    expect(stdout).toMatch(/^RUN .*\n0\n$/);
    expect(stderr).toBe("");
  });
});

describe("runs show", () => {
  test("shows a live run with its process tree and verified identities", async () => {
    const [record] = await records();
    const { stdout, code } = await cliFixture.holdfast("runs", "show", record?.runId ?? "");
    expect(code).toBe(0);
    expect(stdout).toContain("alive, verified");
    expect(stdout).toMatch(/─ \d+ sh {2}\(the command\)/);
    expect(stdout).toMatch(/─ \d+ sleep {2}\(session \d+\)/);
    expect(stdout).toMatch(/tier +(cgroup|subreaper)\+/);
    expect(stdout).toMatch(/\d\d:\d\d:\d\d {2}spawn /);
  });

  test("accepts the beginning of an id, with or without run_", async () => {
    const [record] = await records();
    const id = record?.runId ?? "";
    for (const beginning of [id.slice(0, 10), id.slice(4, 10)]) {
      const { stdout } = await cliFixture.holdfast("runs", "show", beginning, "--json");
      expect(JSON.parse(stdout)).toMatchObject({ runId: id, state: "running", processes: { unknown: null } });
    }
  });

  test("names the runs of an ambiguous beginning", async () => {
    const result = await cliFixture.holdfast("runs", "show", "run_");
    expect(result.code).toBe(2);
    expect(result.stderr).toMatch(
      /^holdfast: "run_" is the beginning of several run ids: run_\w+, run_\w+, run_\w+\n$/,
    );
  });

  test("shows an ended run with its residue and events", async () => {
    const [record] = await records("--all", "--label", "who=second");
    const { stdout } = await cliFixture.holdfast("runs", "show", record?.runId ?? "");
    expect(stdout).toMatch(/reason +ownership-escape/);
    expect(stdout).toMatch(/leftovers \(1\)\n {2}\d+ sleep \(detached\)/);
    expect(stdout).toMatch(/escape +\d+ sleep \(detached\)/);
    const { stdout: json } = await cliFixture.holdfast("runs", "show", record?.runId ?? "", "--json");
    const shown = JSON.parse(json) as RunRecord & { events: { type: string }[] };
    expect(shown).toMatchObject(record ?? {});
    expect(shown.events.map(({ type }) => type)).toEqual(["spawn", "escape", "cleanup", "exit"]);
  });
});

describe("without a state directory", () => {
  test("runs list and runs show create nothing", async () => {
    await using empty = await CliFixture.open();
    const list = await empty.shell(
      `export HOLDFAST_HOME="${empty.home}/none"; holdfast runs list --json; holdfast runs list; holdfast runs show x; ls -A "${empty.home}"`,
    );
    expect(list.stdout).toBe("[]\n");
    expect(list.stderr).toBe("holdfast: no run is open; --all lists ended runs\nholdfast: no run x\n");
  });
});
