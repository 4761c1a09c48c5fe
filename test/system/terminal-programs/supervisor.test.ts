import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { readLinePage } from "../../../src/output/line-page.js";
import { replayScreen } from "../../../src/output/replay-screen.js";
import { guessWaitingForInput } from "../../../src/terminal/waiting-for-input.js";
import { watchTerminal } from "./watched-terminal.js";
import { waitFor } from "../../support/wait-for.js";

function missing(...programs: string[]): boolean {
  const places = (process.env["PATH"] ?? "").split(delimiter);
  return !programs.some((program) => places.some((place) => existsSync(join(place, program))));
}

async function file(content: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "hf-term-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const path = join(directory, "file.txt");
  await writeFile(path, content);
  return path;
}

describe.skipIf(missing("bash"))("bash", () => {
  const BASH = ["bash", "--norc", "--noprofile", "-i"];
  const PROMPT = { PS1: "here$ ", PS2: "more> ", HISTFILE: "" };

  test("runs typed commands, recalls them, and is interrupted", async () => {
    const bash = await watchTerminal(BASH, PROMPT);
    await bash.waitFor("here$");
    await bash.keys("literal:echo $((6*7))", "Enter");
    await bash.waitFor(/^42$/m);
    await bash.keys("Up", "C-a", "C-k", "literal:sleep 500; echo no", "Enter");
    await bash.waitFor("sleep 500");
    await bash.keys("C-c");
    await bash.waitFor(/\^C\nhere\$$/m);
    await bash.keys("Up", "Up", "Home", "Delete", "Delete", "Delete", "Delete", "literal:echo is:", "Enter");
    await bash.waitFor(/^is: 42$|^is:42$/m);
    await bash.expectSameReplayed();
    await bash.keys("C-d");
    expect((await bash.run.wait()).exit).toMatchObject({ reason: "exit" });
  });

  test("accepts a paste of several lines as one, and runs it at Enter", async () => {
    const bash = await watchTerminal(BASH, PROMPT);
    await waitFor("asks for marked pastes", () => bash.snapshot().modes.bracketedPaste);
    await bash.paste("echo fi''rst\necho sec''ond\u001b[201~\necho th''ird");
    await bash.waitFor("th''ird");
    expect(bash.text()).not.toMatch(/^(first|second|third)/m);
    await bash.keys("Enter");
    await bash.waitFor(/^third$/m);
    expect(bash.text()).toMatch(/^first$/m);
  });

  test("seems to wait at a prompt, and its output can be paged", async () => {
    const bash = await watchTerminal(["bash", "-c", 'seq 1 50; read -p "Name: " name; echo "hello $name"']);
    await bash.waitFor("Name:");
    expect(guessWaitingForInput({ tail: bash.lineBeforeCursor(), idleMs: 1_000 })).toMatchObject({
      seems: true,
    });
    const read = (offset: number, maxBytes: number) => bash.run.read("stdout", { offset, maxBytes });
    expect(await readLinePage(read, { last: 3 })).toMatchObject({
      lines: ["49", "50", "Name: "],
      more: false,
    });
    await bash.keys("literal:Anna", "Enter");
    await bash.waitFor("hello Anna");
  });

  test("gets its new size, and so does the screen", async () => {
    const bash = await watchTerminal(BASH, PROMPT);
    await bash.waitFor("here$");
    bash.run.resize({ rows: 10, cols: 40 });
    await bash.screen.resize({ rows: 10, cols: 40 });
    await bash.keys("literal:stty size", "Enter");
    await bash.waitFor(/^10 40$/m);
    expect(bash.snapshot().rows).toHaveLength(10);
  });
});

test("the screen of a program with dropped output is drawn from the kept output", async () => {
  const script = "seq 1 200000; printf '\\033[?2004hend> '; exec cat";
  const busy = await watchTerminal(["sh", "-c", script], {}, { stdout: { boundBytes: 128 * 1024 } });
  await busy.waitFor("end>");
  const read = (offset: number, maxBytes: number) => busy.run.read("stdout", { offset, maxBytes });
  const { screen, droppedBytes } = await replayScreen(read, { rows: 24, cols: 80 });
  expect(droppedBytes).toBeGreaterThan(500_000);
  expect({ ...screen.snapshot(), bytes: 0 }).toEqual({ ...busy.snapshot(), bytes: 0 });
  await screen[Symbol.asyncDispose]();
  expect(await readLinePage(read, { lines: 1 })).toMatchObject({ droppedBytes, more: true });
  expect((await readLinePage(read, { last: 2 })).lines).toEqual(["200000", "end> "]);
});

test("a terminal query is answered with the reply of the screen", async () => {
  const script = "stty raw -echo; printf '\\033[3;7H\\033[6n'; dd bs=1 count=6 2>/dev/null | od -An -c";
  const asking = await watchTerminal(["sh", "-c", script]);
  let replies: Uint8Array = new Uint8Array(0);
  await waitFor("asks", () => {
    replies = asking.screen.takeReplies();
    return replies.length > 0;
  });
  await asking.run.write(replies);
  await asking.waitFor(/033\s+\[\s+3\s+;\s+7\s+R/);
});

test("a Node REPL evaluates, completes and recalls", async () => {
  const repl = await watchTerminal([process.execPath], { NODE_REPL_HISTORY: "", NO_COLOR: "1" });
  await repl.waitFor(/^> ?$/m);
  expect(guessWaitingForInput({ tail: repl.lineBeforeCursor(), idleMs: 1_000 })).toMatchObject({
    seems: true,
  });
  await repl.keys("literal:'a'.repeat(5)", "Enter");
  await repl.waitFor("'aaaaa'");
  await repl.keys("Up");
  await repl.waitFor(/repeat\(5\)$[^>]*> 'a'.repeat\(5\)/m);
  // Node's line editor misplaces keys that arrive together with a recall, on any terminal.
  await repl.keys("Left", "BSpace");
  await repl.waitFor("repeat()");
  await repl.keys("literal:7");
  await repl.waitFor("repeat(7)");
  await repl.keys("Enter");
  await repl.waitFor("'aaaaaaa'");
  await repl.keys("literal:globalThis.setTimeo", "Tab");
  await repl.waitFor("globalThis.setTimeout");
  await repl.keys("C-u", "literal:.exit", "Enter");
  expect((await repl.run.wait()).exit).toMatchObject({ code: 0 });
});

test.skipIf(missing("less"))("less pages, searches and restores the screen", async () => {
  const lines = Array.from({ length: 300 }, (_, line) => `line ${line + 1} of many`).join("\n");
  const less = await watchTerminal(["less", await file(lines)], { LESS: "", LESSHISTFILE: "-" });
  await less.waitFor("line 23 of many");
  expect(less.snapshot().alternate).toBe(true);
  await less.keys("PageDown");
  await less.waitFor("line 46 of many");
  await less.keys("Down", "Down");
  await less.waitFor("line 48 of many");
  await less.keys("End");
  await less.waitFor("line 300 of many");
  await less.keys("Home", "/", "literal:line 150 ", "Enter");
  await less.waitFor(/^line 150 of many/m);
  await less.expectSameReplayed();
  await less.keys("q");
  await less.run.wait();
  await waitFor("the screen is given back", () => !less.snapshot().alternate);
});

test.skipIf(missing("vim", "vim.tiny", "vi"))("vi edits a file with keys, arrows and a paste", async () => {
  const editor = ["vim", "vim.tiny", "vi"].find((name) => !missing(name)) ?? "vi";
  const path = await file("one\ntwo\nthree\n");
  const vi = await watchTerminal([editor, "-u", "NONE", "-i", "NONE", "-N", "-n", path]);
  await vi.waitFor("three");
  expect(vi.snapshot().alternate).toBe(true);
  await vi.keys("Down", "Down", "Up", "A", "literal: and a half", "Escape");
  await vi.waitFor("two and a half");
  await vi.keys("G", "o");
  await vi.paste("pasted\ntext");
  await vi.waitFor(/pasted\ntext/);
  await vi.keys("Left", "Left", "literal:_", "Escape");
  await vi.waitFor("te_xt");
  await vi.expectSameReplayed();
  await vi.keys("literal::wq", "Enter");
  await vi.run.wait();
  expect(await readFile(path, "utf8")).toBe("one\ntwo and a half\nthree\npasted\nte_xt\n");
});

test.skipIf(missing("top"))("top shows processes, reacts to keys and exits", async () => {
  const top = await watchTerminal(["top", "-d", "1"]);
  await top.waitFor(/PID\s+USER/);
  await top.waitFor(/load average/);
  await top.keys("h");
  await top.waitFor(/Help for Interactive Commands/i);
  await top.keys("q");
  await top.waitFor(/PID\s+USER/);
  await top.keys("q");
  expect((await top.run.wait()).exit).toMatchObject({ code: 0 });
});
