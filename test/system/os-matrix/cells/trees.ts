import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { waitFor } from "../../../support/wait-for.js";
import { type Cell, conptyWithoutHandles } from "./cell.js";
import { nodeCommand, type OsFixture, readOutput } from "./os-fixture.js";

/** Below the limit of silence also on a loaded machine. */
const EVERY_MS = 250;

const interactive: Cell = {
  name: "interactive input and output",
  whyNot: conptyWithoutHandles,
  async run(fixture) {
    const supervisor = await fixture.supervisor();
    const silenceMs = fixture.platform.deadlineMs;
    const command = nodeCommand("talk", String(EVERY_MS));
    const run = await fixture.spawn(supervisor, command, { noOutputTimeoutMs: silenceMs });
    const root = run.rootPid ?? 0;
    let seen = "";
    const watching = (async () => {
      for await (const { bytes } of run.follow()) seen += Buffer.from(bytes).toString();
    })();
    await waitFor("it prints", () => seen.includes(`terminal ${fixture.io === "pty"}`));
    await run.write("hello\r\n");
    await waitFor("it has read the input", () => seen.includes("heard hello"));
    // Intermittent output, for twice the limit of silence, counted in lines instead of time.
    const lines = (2 * silenceMs) / EVERY_MS;
    await waitFor("it has printed often", () => seen.split("still here").length > lines, 30_000);
    assert.equal(run.state, "running");
    await run.write("bye\r\n");
    const record = await run.wait();
    await watching;
    assert.equal((await readOutput(run)).stdout, seen);
    await fixture.checkEnd(supervisor, record, { reason: "exit", code: 5 }, [root]);
  },
};

/** Cancels a tree of three below a shell. */
async function cancelUnderShell(fixture: OsFixture, argv: readonly string[]): Promise<void> {
  const supervisor = await fixture.supervisor();
  const run = await fixture.spawn(supervisor, argv);
  const root = run.rootPid ?? 0;
  const pids = await fixture.treePids(3);
  assert.ok(!pids.includes(root), "the shell has been replaced by its command");
  await run.cancel({ actor: "test:me" });
  const exit = { reason: "manual-cancel", actor: "test:me" };
  await fixture.checkEnd(supervisor, await run.wait(), exit, [root, ...pids]);
}

const shellTree: Cell = {
  name: "tree below a shell",
  async run(fixture) {
    const line = fixture
      .tree(2)
      .map((word) => `"${word}"`)
      .join(" ");
    if (process.platform !== "win32") return cancelUnderShell(fixture, ["/bin/sh", "-c", `${line}; exit $?`]);
    const script = join(fixture.home, "tree.cmd");
    await writeFile(script, `@${line}\r\n@exit /b %ERRORLEVEL%\r\n`);
    return cancelUnderShell(fixture, [script]);
  },
};

/** PowerShell 7. */
export const hasPwsh = (process.env["PATH"] ?? "")
  .split(delimiter)
  .some((directory) => ["pwsh", "pwsh.exe"].some((name) => existsSync(join(directory, name))));

const pwshTree: Cell = {
  name: "tree below `pwsh -Command`",
  whyNot: () => (hasPwsh ? null : "`pwsh` is not installed"),
  run(fixture) {
    const words = fixture.tree(2).map((word) => `'${word.replaceAll("'", "''")}'`);
    const line = `& ${words.join(" ")}; exit $LASTEXITCODE`;
    return cancelUnderShell(fixture, ["pwsh", "-NoProfile", "-NonInteractive", "-Command", line]);
  },
};

export const treeCells: readonly Cell[] = [interactive, shellTree, pwshTree];
