import { createHash } from "node:crypto";
import { lstat, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readProcess } from "../../support/live-processes.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { soak } from "../../support/scale.js";
import { RecoveryFixture, TWO_PROCESSES, whyNoTerminal } from "../../support/cli/recovery-fixture.js";

interface Listed {
  readonly runs: readonly {
    readonly runId: string;
    readonly outcome?: string;
    readonly evidence: readonly string[];
    readonly answers: boolean;
    readonly decision: { readonly row: string };
    readonly plan: string;
  }[];
}

const SLEEPER = "echo up; sleep 7011";
const ids = ({ runs }: Listed): string[] => runs.map(({ runId }) => runId).toSorted();

/** Every file of a directory, with its mode and a hash of its content. */
async function contents(directory: string): Promise<string[]> {
  const names = await readdir(directory, { recursive: true });
  const lines = names.map(async (name) => {
    const path = join(directory, name);
    const { mode, mtimeMs, ino } = await lstat(path);
    const bytes = (mode & 0o170000) === 0o100000 ? await readFile(path) : "";
    return `${name} ${mode.toString(8)} ${ino} ${mtimeMs} ${createHash("sha256").update(bytes).digest("hex")}`;
  });
  return (await Promise.all(lines)).toSorted();
}

describe.concurrent("runs cleanup", () => {
  test("selects runs by id, session, agent and label, and ends no others", async () => {
    await using fixture = await RecoveryFixture.open();
    const [bySession = "", byAgent = "", byLabel = "", other = ""] = await fixture.leaveOrphans(
      [TWO_PROCESSES, { sessionKey: "chat-7" }],
      [SLEEPER, { agentId: "codex" }],
      [SLEEPER, { labels: { ticket: "42", by: "me" } }],
      [SLEEPER, { labels: { ticket: "43", by: "me" } }],
    );
    await using cli = new BatchCli(fixture.env);
    const find = async (...scope: readonly string[]): Promise<string[]> => {
      const { stdout } = await cli.holdfast("runs", "cleanup", "--dry-run", "--json", ...scope);
      return ids(JSON.parse(stdout) as Listed);
    };
    expect(await find("--session", "chat-7")).toEqual([bySession]);
    expect(await find("--agent", "codex")).toEqual([byAgent]);
    expect(await find("--label", "ticket=42")).toEqual([byLabel]);
    expect(await find("--label", "by=me", "--label", "ticket=43")).toEqual([other]);
    expect(await find("--run", other)).toEqual([other]);
    expect(await find("--all-orphans")).toEqual([bySession, byAgent, byLabel, other].toSorted());
    expect(await find("--agent", "codex", "--session", "chat-7")).toEqual([]);

    const ended = await fixture.json<Listed>("runs", "cleanup", "--yes", "--session", "chat-7");
    expect(ended.runs).toMatchObject([{ runId: bySession, outcome: "gone", answers: true }]);
    expect(await fixture.membersOf(bySession)).toEqual([]);
    // No gateway is running that could write the record.
    expect(await fixture.record(bySession)).toMatchObject({
      state: "exited",
      exit: { reason: "manual-cancel" },
    });
    for (const runId of [byAgent, byLabel, other]) expect(await fixture.membersOf(runId)).toHaveLength(2);
    const rest = await fixture.json<Listed>("runs", "cleanup", "--yes", "--all-orphans");
    expect(rest.runs.map(({ outcome }) => outcome)).toEqual(["gone", "gone", "gone"]);
    expect(await fixture.holdfast("runs", "cleanup", "--yes", "--all-orphans")).toMatchObject({
      code: 0,
      stdout: "",
      stderr: "holdfast: there is nothing to clean up\n",
    });
  });

  test("with --dry-run shows runs with evidence, and changes nothing", async () => {
    await using fixture = await RecoveryFixture.open();
    const [runId = "", lost = ""] = await fixture.leaveOrphans([TWO_PROCESSES], [SLEEPER]);
    const { anchor, root } = await fixture.record(lost);
    process.kill(readProcess(anchor?.pid ?? 0)?.parentPid ?? 0, "SIGKILL");
    process.kill(anchor?.pid ?? 0, "SIGKILL");
    const before = await contents(fixture.home);
    const { code, stdout, stderr } = await fixture.holdfast("runs", "cleanup", "--all-orphans", "--dry-run");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain(`${runId}  running  /bin/sh -c`);
    expect(stdout).toContain("  evidence: its anchor answers to the key in its run directory\n");
    expect(stdout).toMatch(/ {2}evidence: anchor \d+ \(start \d+(, id \d+)?\) is alive\n/);
    expect(stdout).toContain("  would: stop it, then end its record\n");
    expect(stdout).toContain(`  evidence: leader ${root?.pid} (start ${root?.startTime}`);
    for (const pid of await fixture.membersOf(lost))
      expect(stdout).toMatch(new RegExp(`^  process ${pid} \\w+$`, "m"));
    expect(await contents(fixture.home)).toEqual(before);
    expect(await fixture.membersOf(runId)).toHaveLength(3);
    const ended = await fixture.holdfast("runs", "cleanup", "--all-orphans", "--yes");
    expect(ended.code).toBe(0);
    expect(ended.stdout).toContain(`${runId} is gone (manual-cancel by cli:`);
    expect(ended.stdout).toMatch(
      new RegExp(`^${lost} is gone \\(its anchor is dead; .*proven empty\\)$`, "m"),
    );
    expect(ended.stdout).toMatch(new RegExp(`^  ended: ${root?.pid} sh, \\d+ sleep$`, "m"));
    for (const each of [runId, lost])
      expect(await fixture.record(each)).toMatchObject({ state: "exited", emptiness: "proven" });
  });

  test("counts a run as an orphan when its owner is gone, before its lease has expired", async () => {
    await using fixture = await RecoveryFixture.open();
    const [runId = ""] = await fixture.leaveRuns([TWO_PROCESSES]);
    const { runs } = await fixture.json<Listed>("runs", "cleanup", "--all-orphans", "--dry-run");
    expect(runs).toMatchObject([{ runId, answers: true, decision: { row: "healthy" }, plan: "stop" }]);
    const text = await fixture.holdfast("runs", "cleanup", "--all-orphans", "--yes");
    expect(text.stdout).toMatch(
      /its owner is gone, but its record cannot be ended before its lease expires, in [\d.]+s/,
    );
    expect(text.stdout).toContain(`${runId} is gone`);
    const again = await fixture.holdfast("runs", "cleanup", "--all-orphans", "--yes");
    expect(again.code).toBe(3);
    expect(again.stdout).toContain("  no live process of it is verified\n  would: leave it alone\n");
    fixture.expireLeases();
    expect(await fixture.holdfast("runs", "cleanup", "--all-orphans", "--yes")).toMatchObject({ code: 0 });
    expect(await fixture.record(runId)).toMatchObject({ state: "exited", exit: { reason: "manual-cancel" } });
  });

  test("--all-orphans excludes runs of a live gateway; --run ends them", async () => {
    await using fixture = await RecoveryFixture.open();
    const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES]);
    const gateway = await fixture.gateway();
    expect(ids(await fixture.json<Listed>("runs", "cleanup", "--all-orphans", "--dry-run"))).toEqual([]);
    const { runs } = await fixture.json<Listed>("runs", "cleanup", "--run", runId.slice(4), "--yes");
    expect(runs).toMatchObject([{ runId, outcome: "gone" }]);
    expect(await fixture.waitForEnd(runId)).toMatchObject({ exit: { reason: "manual-cancel" } });
    await gateway.kill("SIGTERM");
  });

  test("asks for confirmation on a terminal; any answer but yes means no", async (context) => {
    if (whyNoTerminal !== null) context.skip(whyNoTerminal);
    await using fixture = await RecoveryFixture.open();
    const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES]);
    const command = ["runs", "cleanup", "--run", runId];
    for (const no of soak ? ["\r", "n\r", "yesterday\r", "\u0003", "\u0004"] : ["\r", "yesterday\r"]) {
      const { code, stdout } = await fixture.atTerminal(command, ["End this run? [y/N]", no]);
      expect(stdout).toContain("nothing was changed");
      expect(code).toBe(3);
    }
    expect(await fixture.membersOf(runId)).toHaveLength(3);
    const { code, stdout } = await fixture.atTerminal(command, ["End this run? [y/N]", "y\r"]);
    expect(stdout).toContain(`${runId} is gone`);
    expect(code).toBe(0);
  });

  test("without a terminal needs --yes; is refused without a scope, or for an unknown run", async () => {
    await using fixture = await RecoveryFixture.open();
    await using cli = new BatchCli(fixture.env);
    const nothing = await cli.holdfast("runs", "cleanup", "--run", "zzzz", "--yes");
    expect(nothing).toMatchObject({ code: 1, stderr: "holdfast: no run zzzz\n" });
    const [runId = ""] = await fixture.leaveOrphans([SLEEPER]);
    const unasked = await cli.holdfast("runs", "cleanup", "--run", runId);
    const scopeless = await cli.holdfast("runs", "cleanup", "--yes");
    const missing = await cli.holdfast("runs", "cleanup", "--run", "zzzz", "--yes");
    const several = await cli.holdfast("runs", "cleanup", "--label", "nothing");
    expect(unasked.code).toBe(2);
    expect(unasked.stderr).toMatch(/^holdfast: there is no terminal to confirm on; add --yes[^\n]+\n$/);
    expect(scopeless).toMatchObject({ code: 2, stdout: "" });
    expect(scopeless.stderr).toContain("--all-orphans");
    expect(missing).toMatchObject({ code: 1, stderr: "holdfast: no run zzzz\n" });
    expect(several).toMatchObject({ code: 2, stdout: "" });
    expect(await fixture.membersOf(runId)).toHaveLength(2);
    await cli.holdfast("runs", "cancel", runId, "--kill");
  });

  test("prints names without control characters", async () => {
    await using fixture = await RecoveryFixture.open();
    const evil = "\u001b[2Jred\u001b]0;title\u0007\nnext";
    const [runId = ""] = await fixture.leaveOrphans([
      `: '${evil}'; ${SLEEPER}`,
      { sessionKey: evil, agentId: evil, labels: { evil } },
    ]);
    const shown = await Promise.all([
      fixture.holdfast("runs", "cleanup", "--session", evil, "--dry-run"),
      fixture.holdfast("runs", "show", runId),
      fixture.holdfast("who", String((await fixture.record(runId)).root?.pid)),
    ]);
    for (const { code, stdout } of shown) {
      expect(code).toBe(0);
      expect(stdout).toContain("red");
      // oxlint-disable-next-line no-control-regex -- that there is none is the promise
      expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f]/);
    }
    expect(ids(await fixture.json<Listed>("runs", "cleanup", "--label", `evil=${evil}`, "--yes"))).toEqual([
      runId,
    ]);
  });
});
