import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { linePage } from "../../src/output/log-lines.js";
import { screenOf } from "../../src/output/screen-of.js";
import { tailOf, waitingForInput } from "../../src/output/waiting-for-input.js";
import { until } from "../io/until.js";
import { watch } from "./watched-terminal.js";

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

  test("runs what is typed, recalls it, and is interrupted", async () => {
    const bash = await watch(BASH, PROMPT);
    await bash.see("here$");
    await bash.keys("literal:echo $((6*7))", "Enter");
    await bash.see(/^42$/m);
    await bash.keys("Up", "C-a", "C-k", "literal:sleep 500; echo no", "Enter");
    await bash.see("sleep 500");
    await bash.keys("C-c");
    await bash.see(/\^C\nhere\$$/m);
    await bash.keys("Up", "Up", "Home", "Delete", "Delete", "Delete", "Delete", "literal:echo is:", "Enter");
    await bash.see(/^is: 42$|^is:42$/m);
    await bash.seeTheSameReplayed();
    await bash.keys("C-d");
    expect((await bash.run.wait()).exit).toMatchObject({ reason: "exit" });
  });

  test("takes a paste of several lines as one, and runs it at Enter", async () => {
    const bash = await watch(BASH, PROMPT);
    await until("asks for marked pastes", () => bash.look().modes.bracketedPaste);
    await bash.paste("echo fi''rst\necho sec''ond\u001b[201~\necho th''ird");
    await bash.see("th''ird");
    expect(bash.text()).not.toMatch(/^(first|second|third)/m);
    await bash.keys("Enter");
    await bash.see(/^third$/m);
    expect(bash.text()).toMatch(/^first$/m);
  });

  test("seems to wait when it asks, and its output can be paged", async () => {
    const bash = await watch(["bash", "-c", 'seq 1 50; read -p "Name: " name; echo "hello $name"']);
    await bash.see("Name:");
    expect(waitingForInput({ tail: tailOf(bash.look()), idleMs: 1_000 })).toMatchObject({ seems: true });
    const read = (offset: number, maxBytes: number) => bash.run.read("stdout", { offset, maxBytes });
    expect(await linePage(read, { last: 3 })).toMatchObject({ lines: ["49", "50", "Name: "], more: false });
    await bash.keys("literal:Anna", "Enter");
    await bash.see("hello Anna");
  });

  test("is told its new size, and the screen follows", async () => {
    const bash = await watch(BASH, PROMPT);
    await bash.see("here$");
    bash.run.resize({ rows: 10, cols: 40 });
    await bash.screen.resize({ rows: 10, cols: 40 });
    await bash.keys("literal:stty size", "Enter");
    await bash.see(/^10 40$/m);
    expect(bash.look().rows).toHaveLength(10);
  });
});

test("a program that printed more than is kept is shown as it is now, from what is kept", async () => {
  const script = "seq 1 200000; printf '\\033[?2004hend> '; exec cat";
  const busy = await watch(["sh", "-c", script], {}, { stdout: { boundBytes: 128 * 1024 } });
  await busy.see("end>");
  const read = (offset: number, maxBytes: number) => busy.run.read("stdout", { offset, maxBytes });
  const { screen, droppedBytes } = await screenOf(read, { rows: 24, cols: 80 });
  expect(droppedBytes).toBeGreaterThan(500_000);
  expect({ ...screen.snapshot(), bytes: 0 }).toEqual({ ...busy.look(), bytes: 0 });
  await screen[Symbol.asyncDispose]();
  expect(await linePage(read, { lines: 1 })).toMatchObject({ droppedBytes, more: true });
  expect((await linePage(read, { last: 2 })).lines).toEqual(["200000", "end> "]);
});

test("a program that asks its terminal gets an answer when the screen's is sent on", async () => {
  const script = "stty raw -echo; printf '\\033[3;7H\\033[6n'; dd bs=1 count=6 2>/dev/null | od -An -c";
  const asking = await watch(["sh", "-c", script]);
  let replies: Uint8Array = new Uint8Array(0);
  await until("asks", () => {
    replies = asking.screen.takeReplies();
    return replies.length > 0;
  });
  await asking.run.write(replies);
  await asking.see(/033\s+\[\s+3\s+;\s+7\s+R/);
});

test("a Node REPL evaluates, completes and recalls", async () => {
  const repl = await watch([process.execPath], { NODE_REPL_HISTORY: "", NO_COLOR: "1" });
  await repl.see(/^> ?$/m);
  expect(waitingForInput({ tail: tailOf(repl.look()), idleMs: 1_000 })).toMatchObject({ seems: true });
  await repl.keys("literal:'a'.repeat(5)", "Enter");
  await repl.see("'aaaaa'");
  await repl.keys("Up");
  await repl.see(/repeat\(5\)$[^>]*> 'a'.repeat\(5\)/m);
  // Keys that come in one burst with a recall are put in the wrong place by Node's line editor, on any terminal.
  await repl.keys("Left", "BSpace");
  await repl.see("repeat()");
  await repl.keys("literal:7");
  await repl.see("repeat(7)");
  await repl.keys("Enter");
  await repl.see("'aaaaaaa'");
  await repl.keys("literal:globalThis.setTimeo", "Tab");
  await repl.see("globalThis.setTimeout");
  await repl.keys("C-u", "literal:.exit", "Enter");
  expect((await repl.run.wait()).exit).toMatchObject({ code: 0 });
});

test.skipIf(missing("less"))("less pages, searches and gives the screen back", async () => {
  const lines = Array.from({ length: 300 }, (_, line) => `line ${line + 1} of many`).join("\n");
  const less = await watch(["less", await file(lines)], { LESS: "", LESSHISTFILE: "-" });
  await less.see("line 23 of many");
  expect(less.look().alternate).toBe(true);
  await less.keys("PageDown");
  await less.see("line 46 of many");
  await less.keys("Down", "Down");
  await less.see("line 48 of many");
  await less.keys("End");
  await less.see("line 300 of many");
  await less.keys("Home", "/", "literal:line 150 ", "Enter");
  await less.see(/^line 150 of many/m);
  await less.seeTheSameReplayed();
  await less.keys("q");
  await less.run.wait();
  await until("the screen is given back", () => !less.look().alternate);
});

test.skipIf(missing("vim", "vim.tiny", "vi"))("vi edits a file with keys, arrows and a paste", async () => {
  const editor = ["vim", "vim.tiny", "vi"].find((name) => !missing(name)) ?? "vi";
  const path = await file("one\ntwo\nthree\n");
  const vi = await watch([editor, "-u", "NONE", "-i", "NONE", "-N", "-n", path]);
  await vi.see("three");
  expect(vi.look().alternate).toBe(true);
  await vi.keys("Down", "Down", "Up", "A", "literal: and a half", "Escape");
  await vi.see("two and a half");
  await vi.keys("G", "o");
  await vi.paste("pasted\ntext");
  await vi.see(/pasted\ntext/);
  await vi.keys("Left", "Left", "literal:_", "Escape");
  await vi.see("te_xt");
  await vi.seeTheSameReplayed();
  await vi.keys("literal::wq", "Enter");
  await vi.run.wait();
  expect(await readFile(path, "utf8")).toBe("one\ntwo and a half\nthree\npasted\nte_xt\n");
});

test.skipIf(missing("nano"))("nano edits a file", async () => {
  const path = await file("one\n");
  const nano = await watch(["nano", "-I", path]);
  await nano.see("one");
  await nano.keys("End", "literal:!", "C-o", "Enter", "C-x");
  await nano.run.wait();
  expect(await readFile(path, "utf8")).toBe("one!\n");
});

test.skipIf(missing("top"))("top shows processes, hears keys and leaves", async () => {
  const top = await watch(["top", "-d", "1"]);
  await top.see(/PID\s+USER/);
  await top.see(/load average/);
  await top.keys("h");
  await top.see(/Help for Interactive Commands/i);
  await top.keys("q");
  await top.see(/PID\s+USER/);
  await top.keys("q");
  expect((await top.run.wait()).exit).toMatchObject({ code: 0 });
});
