import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { CommandInput, Run } from "../../../src/supervisor/api.js";
import { bytePattern, hash, numberedLines } from "../../support/byte-pattern.js";
import { repetitions } from "../../support/scale.js";
import {
  findProcessesOfRun,
  plantLookalike,
  realSupervisor,
  waitForOutput,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor, withTimeout } from "../../support/wait-for.js";

function pty(script: string): CommandInput {
  return { io: "pty", argv: ["/bin/sh", "-c", script] };
}

/** The whole output, until the stream ends. */
async function bytesOf(run: Run): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const { bytes } of run.follow({ streams: ["stdout"] })) parts.push(bytes);
  return Buffer.concat(parts);
}

async function screenOf(run: Run): Promise<string> {
  return (await bytesOf(run)).toString("latin1");
}

/** Output after the terminal driver has translated its line ends (onlcr). */
function onTerminal(text: string): string {
  return text.replaceAll("\n", "\r\n");
}

async function read(run: Run): Promise<string> {
  return Buffer.from((await run.read("stdout")).bytes).toString("latin1");
}

/** True if the terminal sends its keys (^C, ^Z) to the process. */
async function isForegroundOfTerminal(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return group === foreground;
}

describe("no output is lost at the exit", () => {
  test("4 MiB, for a follower and for a late reader", async () => {
    const supervisor = await realSupervisor();
    const sent = bytePattern(4 * 1024 * 1024);
    const file = join(supervisor.home, "burst");
    await writeFile(file, sent);
    // Without output processing a terminal passes any byte unchanged.
    const run = await supervisor.spawn(pty(`stty -opost; exec cat '${file}'`));
    const followed = hash(await bytesOf(run));
    expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
    expect([followed, hash(await bytesOf(run))]).toEqual([hash(sent), hash(sent)]);
  });

  test("lines, each with the carriage return that the terminal adds", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(pty("exec seq 1 200000"));
    expect(hash(await screenOf(run))).toBe(hash(onTerminal(numberedLines(200_000))));
  });

  const endings = {
    "by a leader that exits": "exec seq 1 COUNT",
    "by a child of the leader": "seq 1 COUNT; exit 3",
    "by a leader that is killed": "seq 1 COUNT; kill -9 $$",
    // The leader's end hangs up the terminal; a process that ignores SIGHUP has `settleMs` to finish.
    "by a background job that the leader does not wait for": "trap '' HUP; seq 1 COUNT & exit 0",
  };
  test.each(Object.entries(endings))("small bursts written %s", async (_, script) => {
    const supervisor = await realSupervisor({ discardOutput: true });
    const rounds = repetitions(60, 1_500);
    const wrong: string[] = [];
    const worker = async (first: number): Promise<void> => {
      for (let round = first; round < rounds; round += 4) {
        // Below, around and above what the driver's own buffers hold.
        const count = 1 + ((round * 131) % 2_500);
        const run = await supervisor.spawn(pty(script.replace("COUNT", String(count))));
        const screen = await screenOf(run);
        const { residueCount } = await run.wait();
        const wanted = onTerminal(numberedLines(count));
        if (residueCount === 0 ? screen !== wanted : !wanted.startsWith(screen))
          wrong.push(`round ${round}: ${screen.length} bytes of seq 1 ${count}`);
      }
    };
    await Promise.all([0, 1, 2, 3].map(worker));
    expect(wrong).toEqual([]);
  });
});

describe("the window", () => {
  test("has the requested size, and the program is signalled when it changes", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(
      pty(`trap 'stty size' WINCH; stty size; echo ready; while :; do sleep 0.02; done`),
      { size: { rows: 1, cols: 9_999 } },
    );
    await waitForOutput(run, "1 9999\r\nready");
    for (const [rows, cols] of [
      [51, 133],
      [1, 1],
      [65_535, 65_535],
    ] as const) {
      run.resize({ rows, cols });
      await waitForOutput(run, `${rows} ${cols}\r\n`);
    }
    await run.cancel({ graceMs: 0 });
    await run.wait();
  });
});

describe("the end of input", () => {
  test("ends cat after no input, whole lines, or an unfinished line", async () => {
    const supervisor = await realSupervisor();
    for (const typed of ["", "one\n", "one\ntwo\n", "unfinished", "one\nunfinished"]) {
      const run = await supervisor.spawn(pty("stty -echo; echo ready; cat; echo over"));
      await waitForOutput(run, "ready");
      await run.write(typed);
      await run.closeStdin();
      const record = await withTimeout(5_000, `the end of cat after ${JSON.stringify(typed)}`, run.wait());
      expect(record.exit).toMatchObject({ reason: "exit", code: 0 });
      expect(await screenOf(run)).toBe(onTerminal(`ready\n${typed}over\n`));
    }
  });

  test("comes after all input of a program that reads slowly", async () => {
    const supervisor = await realSupervisor();
    const typed = numberedLines(30_000);
    const file = join(supervisor.home, "got");
    const run = await supervisor.spawn(
      pty(
        `stty -echo; echo ready; (read first; echo "$first"; sleep 0.3; cat) >'${file}'; sha256sum <'${file}'`,
      ),
    );
    await waitForOutput(run, "ready");
    await Promise.all([run.write(typed), run.closeStdin()]);
    await withTimeout(10_000, "the end of input", run.wait());
    expect(await screenOf(run)).toContain(hash(typed));
  });

  test("is not lost on a terminal whose input buffer is full to the last byte", async () => {
    const supervisor = await realSupervisor();
    const stuck: number[] = [];
    // The driver is full at some multiple of its block; which one depends on how the bytes arrived.
    const sizes = Array.from({ length: 48 }, (_, at) => 4_096 + at * 512);
    const attempt = async (size: number): Promise<void> => {
      const go = join(supervisor.home, `go-${size}`);
      const run = await supervisor.spawn(
        pty(`stty -echo; echo ready; until [ -e '${go}' ]; do sleep 0.02; done; wc -c`),
      );
      await waitForOutput(run, "ready");
      await run.write(`${"x".repeat(63)}\n`.repeat(size / 64));
      await run.closeStdin();
      await writeFile(go, "");
      const ended = await withTimeout(2_000, "", run.wait()).catch(() => null);
      if (ended === null) stuck.push(size);
      else expect(await screenOf(run)).toBe(`ready\r\n${size}\r\n`);
      await run.cancel({ graceMs: 0 });
      await run.wait();
    };
    for (let at = 0; at < sizes.length; at += 8) await Promise.all(sizes.slice(at, at + 8).map(attempt));
    expect(stuck, "sizes after which the end of input was lost").toEqual([]);
  });

  test("ends an interactive shell at its prompt, which reads key by key", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(
      { io: "pty", argv: ["bash", "--norc", "--noprofile", "-i"] },
      { env: { PS1: "prompt> ", HISTFILE: "" } },
    );
    await waitForOutput(run, "prompt> ");
    await run.write("echo $((6 * 7))\n");
    await waitForOutput(run, "42\r\n");
    await waitFor("a second prompt", async () => (await read(run)).split("prompt> ").length > 2);
    await run.closeStdin();
    const ended = await withTimeout(3_000, "bash leaves at the end of input", run.wait()).catch(String);
    await run.cancel({ graceMs: 0 });
    await run.wait();
    expect(ended).toMatchObject({ exit: { reason: "exit", code: 0 } });
  });
});

describe("the terminal", () => {
  test("is on all three descriptors, and is the controlling terminal of the run", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(
      pty(`test -t 0 && test -t 1 && test -t 2 && echo three; tty; echo own >/dev/tty
        read -r _ _ _ _ group session terminal foreground _ </proc/$$/stat
        [ "$group" = $$ ] && [ "$session" = $$ ] && [ "$foreground" = $$ ] && [ "$terminal" != 0 ] && echo leads`),
    );
    const screen = await screenOf(run);
    expect(screen).toMatch(/^three\r\n\/dev\/pts\/\d+\r\nown\r\nleads\r\n$/);
  });

  test("supports job control in bash: background, stop, continue, interrupt", async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3032");
    const run = await supervisor.spawn(
      { io: "pty", argv: ["bash", "--norc", "--noprofile", "-i"] },
      { env: { PS1: "prompt> ", HISTFILE: "" } },
    );
    let from = 0;
    /** Matches only output since the last step, because typed input is echoed. */
    const sees = async (wanted: RegExp): Promise<string> => {
      let found: RegExpExecArray | null = null;
      await waitFor(String(wanted), async () => {
        const screen = await read(run);
        found = wanted.exec(screen.slice(from));
        if (found !== null) from += found.index + found[0].length;
        return found !== null;
      });
      return String(found);
    };
    await sees(/prompt> /);
    await run.write("sleep 3032 &\n");
    const job = Number((await sees(/\[1\] \d+/)).slice("[1] ".length));
    await run.write("jobs\n");
    await sees(/\[1\]\+ +Running +sleep 3032/);
    await run.write("fg\n");
    await sees(/sleep 3032\r\n/);
    await waitFor("the job is in the foreground", () => isForegroundOfTerminal(job));
    // bash continues the job after it made it the foreground job: a ^Z in between has no effect.
    await waitFor("the job is stopped", async () => {
      const [, state = ""] = /\) (\w)/.exec(await readFile(`/proc/${job}/stat`, "utf8")) ?? [];
      if (state !== "T") await run.write("\x1a");
      return state === "T";
    });
    await sees(/\[1\]\+ +Stopped +sleep 3032/);
    await run.write("bg; fg\n");
    await sees(/sleep 3032\r\n/);
    await waitFor("the job is in the foreground again", () => isForegroundOfTerminal(job));
    await run.write("\x03");
    await sees(/prompt> /);
    await run.write("echo code=$?; jobs; exit 5\n");
    await sees(/code=130\r\n/);
    expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 5 });
    const screen = await screenOf(run);
    expect(screen).not.toContain("no job control");
    expect(screen).not.toContain("cannot set terminal process group");
    expect(await findProcessesOfRun(run.runId)).toEqual([]);
  });

  test("turns the byte of Ctrl-C into an interrupt of the foreground program", async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3033");
    const run = await supervisor.spawn(pty("echo ready; exec sleep 3033"));
    await waitForOutput(run, "ready");
    await run.write("\x03");
    const record = await withTimeout(3_000, "the interrupt", run.wait());
    expect(record.exit).toMatchObject({ reason: "signal", signal: "SIGINT", actor: "" });
    expect(await screenOf(run)).toBe("ready\r\n^C");
  });
});
