import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { CommandInput, Run, Supervisor } from "../../../src/supervisor/api.js";
import { bytePattern, hash, numberedLines } from "../../support/byte-pattern.js";
import { repetitions } from "../../support/scale.js";
import {
  findProcessesOfRun,
  plantLookalike,
  realSupervisor,
  waitForOutput,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor, withTimeout } from "../../support/wait-for.js";
import { connectedDescriptors, descriptors, isForegroundOfTerminal, parentOf } from "./descriptors.js";

function pty(script: string): CommandInput {
  return { io: "pty", argv: ["/bin/sh", "-c", script] };
}

/** All of it, as it arrives, until the streams end. */
async function bytesOf(run: Run): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const { bytes } of run.follow({ streams: ["stdout"] })) parts.push(bytes);
  return Buffer.concat(parts);
}

async function screenOf(run: Run): Promise<string> {
  return (await bytesOf(run)).toString("latin1");
}

/** What the terminal driver makes of line ends on their way out (onlcr). */
function onTerminal(text: string): string {
  return text.replaceAll("\n", "\r\n");
}

describe("not one byte is lost at the exit", () => {
  test.each([1, 4])(
    "of %i MiB that a program writes and leaves, for who follows and who comes late",
    async (mebibytes) => {
      const supervisor = await realSupervisor();
      const sent = bytePattern(mebibytes * 1024 * 1024);
      const file = join(supervisor.home, "burst");
      await writeFile(file, sent);
      // Without output processing a terminal passes any byte unchanged.
      const run = await supervisor.spawn(pty(`stty -opost; exec cat '${file}'`));
      const followed = hash(await bytesOf(run));
      expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
      expect([followed, hash(await bytesOf(run))]).toEqual([hash(sent), hash(sent)]);
    },
  );

  test("of lines, each with the carriage return that the terminal adds", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(pty("exec seq 1 200000"));
    expect(hash(await screenOf(run))).toBe(hash(onTerminal(numberedLines(200_000))));
  });

  const endings = {
    "by a leader that exits": "exec seq 1 COUNT",
    "by a child of the leader": "seq 1 COUNT; exit 3",
    "by a leader that is killed": "seq 1 COUNT; kill -9 $$",
    // The leader's end hangs up the terminal; what ignores that has `settleMs` to finish.
    "by a background job that the leader does not wait for": "trap '' HUP; seq 1 COUNT & exit 0",
  };
  test.each(Object.entries(endings))("of small bursts written %s, again and again", async (_, script) => {
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

describe("descriptors", () => {
  const WAITING = "echo ready; exec sleep 3031";

  async function several(supervisor: Supervisor): Promise<{ run: Run; io: "pipe" | "pty" }[]> {
    const kinds = ["pipe", "pty", "pipe", "pty", "pty", "pipe"] as const;
    return Promise.all(
      kinds.map(async (io) => {
        const argv = ["/bin/sh", "-c", WAITING];
        const run = await supervisor.spawn(io === "pipe" ? { io, argv } : { io, argv });
        await waitForOutput(run, "ready");
        return { run, io };
      }),
    );
  }

  test("of a run are its own three, and nobody else's, neither another run's nor the supervisor's", async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3031");
    const runs = await several(supervisor);
    const seen = new Map<string, string>();
    const ours = await connectedDescriptors("self");
    for (const { run, io } of runs) {
      // Its loader may still have a library open.
      let held = await descriptors(run.rootPid ?? 0);
      for (let look = 0; look < 100 && held.size > 3; look++) held = await descriptors(run.rootPid ?? 0);
      expect(new Set(held.keys()), run.runId).toEqual(new Set([0, 1, 2]));
      const targets = new Set(held.values());
      for (const target of targets) {
        expect(target).toMatch(io === "pty" ? /^\/dev\/pts\/\d+$/ : /^pipe:\[\d+\]$/);
        expect(seen.get(target), `${target} of ${run.runId}`).toBeUndefined();
        expect(ours.has(target), `${target} is open in the supervisor too`).toBe(false);
        seen.set(target, run.runId);
      }
      expect(targets.size).toBe(io === "pty" ? 1 : 3);
    }
  });

  test("of an anchor are those of its own run: it can reach no other, and holds no other's pipe open", async () => {
    const supervisor = await realSupervisor();
    const runs = await several(supervisor);
    const anchors = await Promise.all(
      runs.map(async ({ run }) => (await supervisor.getRun(run.runId))?.anchor?.pid ?? 0),
    );
    // What all of them were born with is another matter; see below.
    const inherited = await connectedDescriptors(await parentOf(anchors[0] ?? 0));
    const holders = new Map<string, number>();
    for (const anchor of anchors)
      for (const target of await connectedDescriptors(anchor))
        if (!inherited.has(target)) holders.set(target, (holders.get(target) ?? 0) + 1);
    expect(holders.size).toBeGreaterThanOrEqual(runs.length);
    expect([...holders].filter(([, count]) => count > 1)).toEqual([]);
  });

  test("of a terminal: it is hung up for a run that has ended while others go on", async () => {
    const supervisor = await realSupervisor();
    const [ending, , other] = await Promise.all([
      supervisor.spawn(pty("echo ready; read line")),
      supervisor.spawn({ io: "pipe", argv: ["sleep", "3031"] }),
      supervisor.spawn(pty(WAITING)),
    ]);
    await Promise.all([waitForOutput(ending, "ready"), waitForOutput(other, "ready")]);
    const [terminal] = await connectedDescriptors(ending.rootPid ?? 0);
    await ending.write("go\n");
    await ending.wait();
    const anchor = (await supervisor.getRun(other.runId))?.anchor?.pid ?? 0;
    for (const pid of [other.rootPid ?? 0, anchor, await parentOf(anchor)])
      expect((await connectedDescriptors(pid)).has(terminal ?? ""), `${terminal} in ${pid}`).toBe(false);
    expect(other.state).toBe("running");
  });

  test("of who started the supervisor reach neither launcher, anchor nor run", async () => {
    const supervisor = await realSupervisor();
    // A gap before the high ones: whoever closes "all from 3 up until the first that is not open" misses them.
    const script = `
      import { openSupervisor } from "${new URL("../../../dist/index.js", import.meta.url).href}";
      const supervisor = await openSupervisor({ home: ${JSON.stringify(supervisor.home)} });
      const run = await supervisor.spawn({ io: "pipe", argv: ["sleep", "3031"] });
      console.log(run.rootPid);
      process.stdin.on("end", () => supervisor.close()).resume();`;
    const child = spawn(
      "bash",
      ["-c", `exec 9>"$1/nine" 60>"$1/sixty"; exec "$0" --input-type=module -e "$2"`].concat(
        process.execPath,
        supervisor.home,
        script,
      ),
      { stdio: ["pipe", "pipe", "inherit"] },
    );
    const closed = once(child, "close");
    try {
      const [line] = (await once(child.stdout, "data")) as [Buffer];
      const root = Number(line.toString());
      const anchor = await parentOf(root);
      const launcher = await parentOf(anchor);
      for (const [who, pid] of Object.entries({ root, anchor, launcher })) {
        const held = [...(await descriptors(pid)).values()];
        const strange = held.filter((target) => /\/(?:nine|sixty)$/.test(target));
        expect(strange, who).toEqual([]);
      }
    } finally {
      child.stdin.end();
      await closed;
    }
  });
});

describe("the window", () => {
  test("has the size asked for, whatever it is, and the program is signalled when it changes", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(
      pty(`trap 'stty size' WINCH; stty size; echo ready; while :; do sleep 0.02; done`),
      { size: { rows: 1, cols: 9_999 } },
    );
    await waitForOutput(run, "1 9999\r\nready");
    for (const [rows, cols] of [
      [51, 133],
      [1, 1],
      [300, 500],
    ] as const) {
      run.resize({ rows, cols });
      await waitForOutput(run, `${rows} ${cols}\r\n`);
    }
    await run.cancel({ graceMs: 0 });
    await run.wait();
  });

  test("takes the largest size that the call accepts", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(pty("echo ready; read line; stty size"));
    await waitForOutput(run, "ready");
    run.resize({ rows: 65_535, cols: 65_535 });
    await run.write("go\n");
    expect(await screenOf(run)).toContain("65535 65535");
  });
});

describe("the end of input", () => {
  test("ends cat, with nothing, whole lines or an unfinished line before it", async () => {
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

  test("comes after everything typed to a program that is slow to read", async () => {
    const supervisor = await realSupervisor();
    const typed = numberedLines(30_000);
    const file = join(supervisor.home, "got");
    const run = await supervisor.spawn(
      pty(
        `stty -echo; echo ready; (read first; echo "$first"; sleep 0.3; cat) >'${file}'; sha256sum <'${file}'`,
      ),
    );
    await waitForOutput(run, "ready");
    const written = run.write(typed);
    await Promise.all([written, run.closeStdin()]);
    await withTimeout(10_000, "the end of input", run.wait());
    expect(await screenOf(run)).toContain(hash(typed));
  });

  test("is not lost on a terminal whose input buffer is full to the last byte", async () => {
    const supervisor = await realSupervisor();
    const stuck: number[] = [];
    // The driver fills up at some multiple of its block, which one depends on how the bytes came.
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
    expect(stuck, "bytes typed before an end of input that never came").toEqual([]);
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

async function read(run: Run): Promise<string> {
  return Buffer.from((await run.read("stdout")).bytes).toString("latin1");
}

describe("the terminal", () => {
  test("is one on all three descriptors, and the run's controlling terminal", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(
      pty(`test -t 0 && test -t 1 && test -t 2 && echo three; tty; echo own >/dev/tty
        read -r _ _ _ _ group session terminal foreground _ </proc/$$/stat
        [ "$group" = $$ ] && [ "$session" = $$ ] && [ "$foreground" = $$ ] && [ "$terminal" != 0 ] && echo leads`),
    );
    const screen = await screenOf(run);
    expect(screen).toMatch(/^three\r\n\/dev\/pts\/\d+\r\nown\r\nleads\r\n$/);
  });

  test("gives an interactive bash its jobs: background, stop, continue, interrupt", async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3032");
    const run = await supervisor.spawn(
      { io: "pty", argv: ["bash", "--norc", "--noprofile", "-i"] },
      { env: { PS1: "prompt> ", HISTFILE: "" } },
    );
    let from = 0;
    /** Since the last step only: what is typed is echoed, and must not be taken for an answer. */
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
    await waitFor("the job has the keys", () => isForegroundOfTerminal(job));
    await run.write("\x1a");
    await sees(/\[1\]\+ +Stopped +sleep 3032/);
    await run.write("bg; fg\n");
    await sees(/sleep 3032\r\n/);
    await waitFor("the job has them again", () => isForegroundOfTerminal(job));
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

  test("turns the byte of Ctrl-C into an interrupt of the program in front", async () => {
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

describe("a job that holds the terminal does not hang the end", () => {
  const promptly = 3_000;

  test.each([
    ["and is hung up with it", "sleep 3034 & exit 0", 0],
    ["and ignores the hang-up", "trap '' HUP; sleep 3034 & exit 0", 1],
    ["and ignores everything it can", "trap '' HUP TERM INT; sleep 3034 & exit 0", 1],
    [
      "and goes on writing to it",
      "trap '' HUP; (while :; do echo busy; done) & (while :; do echo busy; done) & exit 0",
      2,
    ],
  ])("in the background %s", async (_, script, residue) => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3034");
    const run = await supervisor.spawn(pty(script), { graceMs: 300 });
    const record = await withTimeout(promptly, "the end", run.wait());
    expect(record).toMatchObject({
      exit: { reason: "exit", code: 0 },
      residueCount: residue,
      emptiness: "proven",
    });
    expect(record.residue.map(({ kind }) => kind)).toEqual(
      Array.from({ length: residue }, () => "background"),
    );
    expect(await findProcessesOfRun(run.runId)).toEqual([]);
  });

  test("outside the run, where it is left alone", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(pty("tty; read line; echo last words; exit 6"));
    await waitForOutput(run, "\r\n");
    const terminal = (await read(run)).trim();
    const stranger = spawn("sh", ["-c", `exec 3<>"$0"; echo holding; exec sleep 3035`, terminal], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    onTestFinished(() => void stranger.kill("SIGKILL"));
    await once(stranger.stdout, "data");
    await run.write("go\n");
    // The last output may take `drainMs` to be given up on, no longer.
    const record = await withTimeout(promptly + defaults.drainMs, "the end", run.wait());
    expect(record).toMatchObject({ exit: { reason: "exit", code: 6 }, residueCount: 0, emptiness: "proven" });
    expect(await screenOf(run)).toContain("last words\r\n");
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
  });
});
