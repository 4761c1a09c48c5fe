import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { isAlive } from "../../../support/live-processes.js";
import { RecoveryFixture } from "../../../support/cli/recovery-fixture.js";
import { OtherTool } from "./other-tool.js";

/** The wrapper of another tool: it starts a child and waits. */
const WRAPPER = "sleep 7041 &\necho up\nread line\n";

interface Result {
  readonly runId: string | null;
  readonly pid: number;
  readonly verified: boolean;
  readonly why: string;
}

async function fileOf(fixture: RecoveryFixture, content: unknown): Promise<string> {
  const path = join(fixture.home, "records.json");
  await writeFile(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

describe.concurrent("runs import", () => {
  test("of a matching process: cleanup ends it, and no process with the same command", async () => {
    await using fixture = await RecoveryFixture.open();
    await using tool = new OtherTool(fixture.home, WRAPPER);
    const [wanted, lookalike] = [await tool.start("wrap.sh", "a b"), await tool.start("wrap.sh", "a b")];
    // Quoted as the other tool stored it.
    const command = `"/bin/sh" '${tool.directory}/wrap.sh' "a b"`;
    const wrapperRoot = tool.directory;
    const file = await fileOf(fixture, [
      { pid: wanted.pid, command, wrapperRoot, labels: { from: "tool" }, more: 1 },
    ]);
    const dry = await fixture.json<Result[]>("runs", "import", file, "--dry-run");
    expect(dry).toMatchObject([{ runId: null, pid: wanted.pid, verified: true }]);
    expect(await readdir(fixture.home)).not.toContain("store.sqlite");
    const [first] = await fixture.json<Result[]>("runs", "import", file);
    const [second] = await fixture.json<Result[]>("runs", "import", file);
    expect(second?.runId).toBe(first?.runId);
    const runId = first?.runId ?? "";
    const shown = await fixture.holdfast("runs", "show", runId);
    expect(shown.stdout).toMatch(new RegExp(`imported +pid ${wanted.pid}, below ${tool.directory}\n`));
    expect(shown.stdout).toMatch(/owner +none, epoch 1\n/);
    const cancelled = await fixture.holdfast("runs", "cancel", runId);
    expect(cancelled.code).toBe(3);
    expect(isAlive(wanted)).toBe(true);
    const cleaned = await fixture.holdfast("runs", "cleanup", "--label", "from=tool", "--yes");
    expect(cleaned.stdout).toContain(
      `evidence: process ${wanted.pid} runs the recorded command from below ${tool.directory}\n`,
    );
    expect([wanted, lookalike].map(isAlive)).toEqual([false, true]);
    const { exit } = await fixture.record(runId);
    expect(exit?.reason).toBe("lost");
    expect(exit?.detail).not.toContain("anchor");
  });

  test("of a matching process: the next gateway ends it; others are left alone", async () => {
    await using fixture = await RecoveryFixture.open();
    await using tool = new OtherTool(fixture.home, WRAPPER);
    const there = [
      await tool.start("wrap.sh", "1"),
      await tool.start("wrap.sh", "2"),
      await tool.start("wrap.sh", "3"),
      await tool.start("wrap.sh", "4"),
    ];
    const [one, other, elsewhere, older] = there;
    const wrapperRoot = tool.directory;
    const command = (word: string): string => `/bin/sh '${tool.directory}/wrap.sh' ${word}`;
    const lines = [
      { pid: one?.pid, command: command("1"), wrapper_root: wrapperRoot, startTime: one?.startTime },
      { pid: other?.pid, command: command("another word"), wrapperRoot },
      { pid: elsewhere?.pid, command: command("3"), wrapperRoot: `${wrapperRoot}/deeper` },
      { pid: older?.pid, command: command("4"), wrapperRoot, startTime: 1 },
      { pid: 4_194_303, command: command("5"), wrapperRoot },
    ];
    const file = await fileOf(fixture, lines.map((line) => JSON.stringify(line)).join("\n"));
    const imported = await fixture.json<Result[]>("runs", "import", file);
    expect(imported.map(({ verified }) => verified)).toEqual([true, false, false, false, false]);
    expect(imported.map(({ why }) => why)).toEqual([
      expect.stringContaining("match"),
      expect.stringContaining("runs another command"),
      expect.stringContaining("runs no program below"),
      expect.stringContaining("was started at another time"),
      "the process is gone",
    ]);
    const gateway = await fixture.gateway();
    expect(there.map(isAlive)).toEqual([false, true, true, true]);
    const states = await Promise.all(
      imported.map(async ({ runId }) => (await fixture.record(runId ?? "")).state),
    );
    expect(states).toEqual(["exited", "starting", "starting", "starting", "exited"]);
    const left = gateway.events.filter((news) => news.type === "problem");
    expect(left.map(({ message }) => message)).toEqual([
      expect.stringContaining("is left alone: imported, left alone"),
      expect.stringContaining("is left alone: imported, left alone"),
      expect.stringContaining("is left alone: imported, left alone"),
    ]);
    await gateway.kill("SIGTERM");
  });

  test.each<[string, unknown, string]>([
    ["no JSON", "{ pid: 1 }", "cannot be read as JSON"],
    ["an empty file", "", "cannot be read as JSON"],
    ["a truncated line", '{"pid":5,"command":"x","wrapperRoot":"/a"}\n{"pid":', "cannot be read as JSON"],
    ["process 1", [{ pid: 1, command: "x", wrapperRoot: "/a" }], "entry 1 cannot be used (pid: "],
    ["no command", [{ pid: 5, command: "", wrapperRoot: "/a" }], "entry 1 cannot be used (command: "],
    [
      "a relative wrapperRoot",
      [{ pid: 5, command: "x", wrapperRoot: "a" }],
      "(needs an absolute wrapperRoot)",
    ],
    [
      "no wrapperRoot",
      [
        { pid: 5, command: "x", wrapperRoot: "/a" },
        { pid: 6, command: "x" },
      ],
      "entry 2 cannot be used",
    ],
    [
      "a label that is a number",
      [{ pid: 5, command: "x", wrapperRoot: "/a", labels: { a: 1 } }],
      "labels.a: ",
    ],
  ])("refuses %s, and imports nothing", async (_, content, why) => {
    await using fixture = await RecoveryFixture.open();
    const { code, stdout, stderr } = await fixture.holdfast("runs", "import", await fileOf(fixture, content));
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^holdfast: [^\n]+; nothing was imported\n$/);
    expect(stderr).toContain(why);
    expect(await readdir(fixture.home)).toEqual(["records.json"]);
  });
});
