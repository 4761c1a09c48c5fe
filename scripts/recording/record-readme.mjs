// Records the first console block of the README in a terminal, and writes it as an animated SVG. The commands are executed;
// ids get the names that the README gives them. The terminal is of script(1), because inside a run of Holdfast no gateway
// can be started. Needs dist/.
//
// Usage: node scripts/recording/record-readme.mjs
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import xterm from "@xterm/headless";
import { animatedSvg, readScreen } from "./animated-svg.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const COLUMNS = 108;
const ROWS = 31;
const PROMPT = "$ ";
/** A key, a pause before the next command, and the longest pause of a command that is shown. */
const KEY_MS = 35;
const READ_MS = 900;
const LONGEST_MS = 1_500;
const WAIT_MS = 60_000;

/** The first console block: its commands, and its text, whose ids the recording shows. */
export function firstConsoleBlock(readme) {
  const [, block = ""] = /^```console\n([\s\S]*?)^```$/m.exec(readme) ?? [];
  const commands = [...block.matchAll(/^\$ (.*)$/gm)].map(([, command]) => command);
  return { block, commands };
}

/** Replaces the ids of this run by those of the README, in the order of their appearance, and the directory by its usual name. */
function renamer(block, home) {
  const wanted = new Map();
  for (const [id, kind] of block.matchAll(/\b(run|in)_[a-z0-9]+\b/g)) {
    const ids = wanted.get(kind) ?? [];
    wanted.set(kind, ids.includes(id) ? ids : [...ids, id]);
  }
  const names = new Map();
  return (text) =>
    text.replaceAll(home, "~/.local/state/holdfast").replaceAll(/\b(run|in)_[a-z0-9]{8,}\b/g, (id, kind) => {
      if (!names.has(id)) names.set(id, wanted.get(kind)?.shift() ?? id);
      return names.get(id);
    });
}

async function record({ block, commands }) {
  const directory = mkdtempSync(join(tmpdir(), "recording-"));
  // As long as the usual name, so that lines and columns break as they do there.
  const home = join(directory, "h");
  const bin = join(directory, "bin");
  mkdirSync(bin);
  const holdfast = join(bin, "holdfast");
  const cli = join(root, "dist/cli/main.js");
  writeFileSync(holdfast, `#!/bin/sh\nexec "${process.execPath}" "${cli}" "$@"\n`, { mode: 0o755 });
  const env = {
    PATH: `${bin}:/usr/local/bin:/usr/bin:/bin`,
    HOME: directory,
    HOLDFAST_HOME: home,
    TERM: "xterm-256color",
    LANG: "C.UTF-8",
    PS1: PROMPT,
    BASH_SILENCE_DEPRECATION_WARNING: "1",
  };
  const shell = spawn(
    "script",
    ["-qfec", `stty rows ${ROWS} cols ${COLUMNS}; exec bash --norc --noprofile -i`, "/dev/null"],
    { env, cwd: directory, stdio: ["pipe", "pipe", "inherit"] },
  );
  const ended = once(shell, "close");
  try {
    const terminal = new xterm.Terminal({ cols: COLUMNS, rows: ROWS, allowProposedApi: true });
    const frames = [];
    let last = performance.now();
    let time = 0;
    const show = (elapsed) => {
      time += Math.min(elapsed, LONGEST_MS);
      frames.push({ at: time, rows: readScreen(terminal) });
    };
    const reading = (async () => {
      for await (const bytes of shell.stdout) {
        await new Promise((resolve) => terminal.write(bytes, resolve));
        const now = performance.now();
        show(now - last);
        last = now;
      }
    })();
    const promptIsBack = () => {
      const { active } = terminal.buffer;
      const line = active.getLine(active.baseY + active.cursorY)?.translateToString(true) ?? "";
      return line.trimEnd() === PROMPT.trimEnd() && active.cursorX === PROMPT.length;
    };
    const untilPrompt = async (what) => {
      for (const began = performance.now(); !promptIsBack();)
        if (performance.now() - began > WAIT_MS) throw new Error(`no prompt after ${what}`);
        else await new Promise((resolve) => setTimeout(resolve, 20));
    };
    await untilPrompt("the start of the shell");
    for (const command of commands) {
      for (const key of command) {
        // The shell shows each key; its pause is the same in each recording.
        last = performance.now();
        const shown = frames.length;
        shell.stdin.write(key);
        while (frames.length === shown) await new Promise((resolve) => setTimeout(resolve, 2));
        time = frames[shown - 1].at + KEY_MS;
        frames.splice(shown, frames.length, { at: time, rows: readScreen(terminal) });
      }
      last = performance.now();
      const before = frames.length;
      shell.stdin.write("\n");
      while (frames.length === before) await new Promise((resolve) => setTimeout(resolve, 2));
      await untilPrompt(command);
      show(READ_MS);
    }
    const end = frames.length;
    const printed = linesOf(terminal.buffer.active);
    shell.stdin.end("exit\n");
    await Promise.all([reading, ended]);
    return { frames: frames.slice(0, end), printed, rename: renamer(block, home) };
  } finally {
    execFileSync(holdfast, ["gateway", "stop", "--runs", "terminate"], { env, stdio: "ignore" });
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** The lines of the terminal, however they were wrapped. */
function linesOf(buffer) {
  const lines = [];
  for (let at = 0; at < buffer.length; at++) {
    const line = buffer.getLine(at);
    const text = line.translateToString(true);
    if (line.isWrapped) lines.push(lines.pop() + text);
    else lines.push(text);
  }
  return lines;
}

/** What a block says, without what differs from run to run. Rows of tables are cut to the terminal, so they are left out. */
function said(lines) {
  return lines
    .filter((line) => !/^(?:RUN|run_\w+ {2}| |\$ ?$|$)/.test(line))
    .map((line) =>
      line
        .replace(/state in .*/, "state in …")
        .replaceAll(/\b(run|in)_[a-z0-9]{8,}\b/g, "$1_…")
        .replaceAll(/[\d.]+(?=ms|s\b)/g, "…")
        .replaceAll(/pid \d+/g, "pid …")
        .replaceAll(/…m?s\b/g, "…"),
    );
}

/** A machine that is busy may say more than the README, or something else. */
const ATTEMPTS = 5;

async function recordAsInReadme(found) {
  const wanted = said(found.block.split("\n"));
  for (let attempt = 1; ; attempt++) {
    const recorded = await record(found);
    const printed = said(recorded.printed);
    if (JSON.stringify(printed) === JSON.stringify(wanted)) return recorded;
    if (attempt === ATTEMPTS)
      throw new Error(`the README says\n${wanted.join("\n")}\n\nbut it was\n${printed.join("\n")}`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = firstConsoleBlock(readFileSync(join(root, "README.md"), "utf8"));
  const { frames, rename } = await recordAsInReadme(found);
  const svg = animatedSvg({ frames, rename, commands: found.commands, columns: COLUMNS, rows: ROWS });
  const path = join(root, "docs/images/first-run.svg");
  writeFileSync(path, svg);
  console.log(`${path}: ${(svg.length / 1024).toFixed(0)} KiB, ${frames.length} frames`);
}
