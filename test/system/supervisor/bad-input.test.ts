import { mkdir, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { BadInput, SpawnFailed } from "../../../src/errors.js";
import type { CommandInput, Run, SpawnOptions, Supervisor } from "../../../src/supervisor/api.js";
import { openSupervisor } from "../../../src/supervisor/open.js";
import { hash, bytePattern } from "../../support/byte-pattern.js";
import { readExitFile, spoolUsage } from "../../support/run-files.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import {
  plantLookalike,
  waitForOutput,
  findProcessesOfRun,
  realSupervisor,
  shellInput,
  temporaryHome,
  readOutput,
} from "../../support/supervisor/real-supervisor.js";
import { scaled } from "../../support/machine-speed.js";
import { waitFor, withTimeout } from "../../support/wait-for.js";

const TRUE: CommandInput = { io: "pipe", argv: ["true"] };

/** Callers come from JSON and JavaScript too. */
function untyped(value: unknown): never {
  return value as never;
}

async function errorOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => expect.fail("it was not refused"),
    (error: unknown) => error,
  );
}

/** What is asked for: a command, or options for one that is all right. */
const commands: readonly (readonly [string, unknown, RegExp])[] = [
  ["an empty argv", { io: "pipe", argv: [] }, /command is empty/],
  ["an empty name", { io: "pipe", argv: ["", "x"] }, /command is empty/],
  ["an empty shell command", { io: "pty", ptyCommand: " " }, /ptyCommand is empty/],
  ["a NUL in the name", { io: "pipe", argv: ["tr\0ue"] }, /NUL/],
  ["a NUL in an argument", { io: "pty", argv: ["true", "a\0b"] }, /NUL/],
  ["a NUL in a shell command", { io: "pty", ptyCommand: "echo \0" }, /NUL/],
  ["an argument that is no text", { io: "pipe", argv: ["echo", 5] }, /argv is not a list of strings/],
  ["no command at all", null, /not an object/],
  ["a shell command on a pipe", { io: "pipe", ptyCommand: "true" }, /needs a PTY/],
  ["an unknown kind of io", { io: "tty", argv: ["true"] }, /"tty"/],
  [
    "an argument no system takes",
    { io: "pipe", argv: ["echo", "x".repeat(131_072)] },
    /argument 1 has 131072/,
  ],
];

const options: readonly (readonly [string, unknown, string, RegExp])[] = [
  ["a NUL in the directory", { cwd: "/tmp\0" }, "cwd", /NUL/],
  ["an empty directory", { cwd: "" }, "cwd", /directory is empty/],
  ["a directory that is no text", { cwd: 5 }, "cwd", /directory/],
  ["a negative timeout", { timeoutMs: -1 }, "timeoutMs", /timeoutMs.*-1/],
  ["a timeout that is no number", { timeoutMs: Number.NaN }, "timeoutMs", /timeoutMs.*NaN/],
  ["an endless silence", { noOutputTimeoutMs: Infinity }, "noOutputTimeoutMs", /noOutputTimeoutMs.*Infinity/],
  ["half a millisecond of grace", { graceMs: 0.5 }, "graceMs", /graceMs.*0\.5/],
  ["a grace in words", { graceMs: "5s" }, "graceMs", /graceMs.*5s/],
  ["a window without rows", { size: { rows: 0, cols: 80 } }, "size", /rows.*0/],
  ["a window as wide as the world", { size: { rows: 24, cols: 65_536 } }, "size", /cols.*65536/],
  ["a umask beyond its bits", { umask: 0o1000 }, "umask", /umask.*512/],
  ["an unknown kind", { kind: "daemon" }, "kind", /task, service.*"daemon"/],
  ["an unknown escape policy", { onEscape: "ignore" }, "onEscape", /fail, sweep.*"ignore"/],
  ["an unknown stdin", { stdin: "inherit" }, "stdin", /pipe, null.*"inherit"/],
  ["an unknown spool policy", { stdout: { policy: "newest" } }, "stdout.policy", /"newest"/],
  ["a negative bound", { stderr: { boundBytes: -1 } }, "stderr.boundBytes", /-1/],
  ["a label without a key", { labels: { "": "x" } }, "labels", /labels/],
  ["a label that is no text", { labels: { a: 1 } }, "labels", /the value of a/],
  ["a variable without a name", { env: { "": "x" } }, "env", /needs a name/],
  ["a variable with = in its name", { env: { "A=B": "x" } }, "env", /"A=B"/],
  ["a NUL in a variable", { env: { A: "x\0y" } }, "env", /value of A/],
  ["a variable that is no text", { env: { A: 1 } }, "env", /value of A/],
  ["a variable that injects code", { env: { LD_PRELOAD: "/x.so" } }, "env", /LD_PRELOAD/],
  ["one of those in other letters", { env: { node_options: "--x" } }, "env", /node_options/],
  ["another than the one allowed", { env: { LD_AUDIT: "x" }, allowEnv: ["LD_PRELOAD"] }, "env", /LD_AUDIT/],
  ["one of our own variables", { env: { HOLDFAST_LEASE_ID: "x" } }, "env", /HOLDFAST_LEASE_ID/],
  ["a NUL in the session's key", { sessionKey: "a\0b" }, "sessionKey", /session/i],
  ["a session's key that is no text", { sessionKey: {} }, "sessionKey", /session/i],
];

test.each([
  ...commands.map(([what, input, sentence]) => [what, input, {}, "command", sentence] as const),
  ...options.map(([what, given, field, sentence]) => [what, TRUE, given, field, sentence] as const),
])(
  "%s is refused by its name: nothing is recorded, nothing started",
  async (_, input, given, field, sentence) => {
    const supervisor = await realSupervisor();
    const error = await errorOf(supervisor.spawn(untyped(input), untyped(given)));
    expect(error).toBeInstanceOf(BadInput);
    expect(error).toMatchObject({ code: "BAD_INPUT", field });
    expect((error as BadInput).message).toMatch(sentence);
    expect(await supervisor.listRuns()).toEqual([]);
    // Not even a launcher.
    const directory = join(supervisor.home, "instances", supervisor.instanceId);
    expect(await readdir(directory)).not.toContain("launcher.sock");
  },
);

describe("a command that cannot be started", () => {
  async function failed(
    supervisor: Supervisor,
    input: CommandInput,
    given?: SpawnOptions,
  ): Promise<SpawnFailed> {
    const error = await errorOf(supervisor.spawn(input, given));
    expect(error).toBeInstanceOf(SpawnFailed);
    const { runId, message } = error as SpawnFailed;
    expect(await supervisor.getRun(runId)).toMatchObject({
      state: "exited",
      exit: { reason: "spawn-error", code: null, signal: null, detail: message },
      emptiness: "proven",
    });
    return error as SpawnFailed;
  }

  test.each(["pipe", "pty"] as const)(
    "on a %s is named in the error, and its end is recorded",
    async (io) => {
      const supervisor = await realSupervisor();
      const { home } = supervisor;
      const script = join(home, "script");
      const none = join(home, "none");
      await writeFile(script, "#!/no/such/interpreter\n", { mode: 0o755 });
      const command = (...argv: string[]): CommandInput => (io === "pipe" ? { io, argv } : { io, argv });
      const cases: readonly (readonly [SpawnFailed, number, readonly string[]])[] = [
        [await failed(supervisor, command("/no/such/command")), 2, ["/no/such/command"]],
        [await failed(supervisor, command("no-such-command")), 2, ["no-such-command"]],
        [await failed(supervisor, command(script)), 2, [script, "interpreter"]],
        [await failed(supervisor, command(home)), 13, [home, "not an executable file"]],
        [await failed(supervisor, command(`${script}/x`)), 20, [`${script}/x`]],
        [await failed(supervisor, command("true"), { cwd: script }), 20, [script, "not a directory"]],
        [await failed(supervisor, command("true"), { cwd: none }), 2, [none, "no such directory"]],
      ];
      for (const [error, errno, words] of cases) {
        expect(error).toMatchObject({ errno });
        for (const word of words) expect(error.message).toContain(word);
      }
      expect(await supervisor.listRuns({ states: ["starting", "running", "exiting"] })).toEqual([]);
    },
  );

  test("in a directory with too long a path is refused, and does not run elsewhere instead", async () => {
    const supervisor = await realSupervisor();
    const proof = join(supervisor.home, "ran");
    const cwd = join(supervisor.home, "d/".repeat(2_100));
    const error = await errorOf(supervisor.spawn(shellInput(`: >'${proof}'`), { cwd }));
    expect((error as Error).message).toMatch(/directory/);
    await expect(readFile(proof)).rejects.toMatchObject({ code: "ENOENT" });
    expect(await supervisor.listRuns({ states: ["starting", "running", "exiting"] })).toEqual([]);
  });

  test("is not a command with many short arguments, which the system takes", async () => {
    const supervisor = await realSupervisor();
    const many = Array.from({ length: 70_000 }, () => "x");
    const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/sh", "-c", "echo $#", "sh", ...many] });
    expect((await readOutput(run)).stdout).toBe("70000\n");
    await run.wait();
  });
});

describe("a mistake in a call does not hurt the run:", () => {
  async function running(): Promise<Run> {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3071");
    const run = await supervisor.spawn(shellInput("echo ready; cat; sleep 3071"), { graceMs: 100 });
    await waitForOutput(run, "ready");
    return run;
  }

  test.each([
    ["a negative grace", { graceMs: -1 }],
    ["a grace that is no number", { graceMs: Number.NaN }],
    ["an endless grace", { graceMs: Infinity }],
    ["an actor that is no text", { actor: 5 }],
    ["a request id that is no text", { requestId: {} }],
    ["an unknown reason", { reason: "because" }],
  ])("%s for a cancel is refused, and the next cancel works", async (_, given) => {
    const run = await running();
    const answer = await run.cancel(untyped(given)).catch((error: unknown) => error);
    expect.soft(answer).toBeInstanceOf(BadInput);
    expect.soft(run.state).toBe("running");
    expect.soft(run.firstStop).toBeNull();
    await run.cancel({ actor: "test", graceMs: 0 });
    const { exit } = await run.wait();
    expect.soft(exit).toMatchObject({ reason: "manual-cancel", actor: "test" });
  });

  test("a value that is neither text nor bytes is refused, and later writes work", async () => {
    const run = await running();
    for (const wrong of [5, null, undefined, {}, ["a"]]) {
      const answer = await Promise.race([
        (async () => run.write(untyped(wrong)))().catch((error: unknown) => error),
        new Promise((resolve) => setTimeout(resolve, 500, "no answer")),
      ]);
      expect(answer, JSON.stringify(wrong)).toBeInstanceOf(Error);
    }
    await run.write("still here\n");
    await waitForOutput(run, "still here");
    await run.cancel();
    await run.wait();
  });

  test("invalid offsets and sizes are refused", async () => {
    const run = await running();
    const fieldOf = async (call: () => unknown): Promise<string> =>
      ((await errorOf((async () => call())())) as BadInput).field;
    expect(await fieldOf(() => run.read("stdout", { offset: -1 }))).toBe("offset");
    expect(await fieldOf(() => run.read("stdout", { offset: 0.5 }))).toBe("offset");
    expect(await fieldOf(() => run.read("stderr", { maxBytes: Number.NaN }))).toBe("maxBytes");
    expect(await fieldOf(() => run.ack("stdout", -1))).toBe("offset");
    expect(await fieldOf(() => run.resize({ rows: 0, cols: 1 }))).toBe("size");
    expect(await fieldOf(() => run.resize({ rows: 1, cols: 65_536 }))).toBe("size");
    // Nothing is there yet, which is no mistake.
    expect((await run.read("stdout", { offset: 2 ** 40 })).bytes).toHaveLength(0);
    await run.cancel();
    await run.wait();
  });
});

describe("a supervisor that cannot be opened says why, and leaves nothing:", () => {
  test.each(["", "UPPER", "../up", "a/b", "a".repeat(13), "a\0b"])("the instance %j", async (instanceId) => {
    const home = await temporaryHome();
    const error = await errorOf(openSupervisor({ home, instanceId }));
    expect(error).toMatchObject({ code: "BAD_INPUT", field: "instanceId" });
    expect(await readdir(home)).toEqual([]);
  });

  test("an instance that another one holds, which does not notice", async () => {
    const first = await realSupervisor({ instanceId: "in_taken" });
    const run = await first.spawn(shellInput("read line; exit 3"));
    const error = await errorOf(openSupervisor({ home: first.home, instanceId: "in_taken" }));
    expect(error).toMatchObject({ code: "INSTANCE_LOCKED" });
    expect((error as Error).message).toContain("in_taken");
    await run.write("go\n");
    expect((await run.wait()).exit).toMatchObject({ code: 3 });
  });

  test.each(["bin", "instances", "store.sqlite"])("something in the way of %s", async (name) => {
    const home = await temporaryHome();
    const path = join(home, name);
    if (name === "store.sqlite") await mkdir(path);
    else await writeFile(path, "in the way");
    const error = await errorOf(openSupervisor({ home }));
    expect(error).toMatchObject({ code: expect.stringMatching(/^(?:STATE|ANCHOR)_UNUSABLE$/) as string });
    expect((error as Error).message).toContain(path);
    await rm(path, { recursive: true });
    // Once it is out of the way, all is well.
    const supervisor = await realSupervisor({ home });
    expect((await (await supervisor.spawn(TRUE)).wait()).exit).toMatchObject({ code: 0 });
  });
});

describe("a full disk", () => {
  interface Tight {
    readonly supervisor: Supervisor;
    /** Leave this many bytes. */
    readonly fill: (left: number) => Promise<void>;
    readonly free: () => Promise<void>;
    /** A file of the pattern, on another disk. */
    readonly file: (length: number) => Promise<string>;
  }

  async function tight(size: string, roomBytes: number): Promise<Tight> {
    const disk = mountSmallDisk(size);
    onTestFinished(() => disk[Symbol.asyncDispose]());
    const elsewhere = await temporaryHome();
    // That the store cannot be written is no news here.
    const supervisor = await openSupervisor({ home: disk.path, onProblem: () => {} });
    const filler = join(disk.path, "..", "filler");
    const free = (): Promise<void> => truncate(filler, 0);
    onTestFinished(async () => {
      await free();
      await supervisor.close();
    });
    return {
      supervisor,
      fill: async (left) => {
        await writeFile(filler, Buffer.alloc(roomBytes)).catch(() => {});
        const { size: filled } = await stat(filler);
        await truncate(filler, Math.max(0, filled - left));
      },
      free,
      file: async (length) => {
        const path = join(elsewhere, "pattern");
        await writeFile(path, bytePattern(length));
        return path;
      },
    };
  }

  const MIB = 1024 * 1024;

  test("with room for some steps of a start but not for others: a clear error or a run, never a half", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    const { supervisor, fill, free } = await tight("8m", 8 * MIB);
    await (await supervisor.spawn(TRUE)).wait();
    for (let left = 0; left <= 96 * 1024; left += 4 * 1024) {
      await fill(left);
      const answer = await withTimeout(
        5_000,
        `an answer with ${left} bytes left`,
        supervisor.spawn(shellInput("exit 3")).catch((error: unknown) => error),
      );
      if (answer instanceof Error) {
        expect(answer, `${left} left`).toMatchObject({
          code: expect.stringMatching(/^(?:STATE_UNUSABLE|SPAWN_FAILED|ANCHOR_UNUSABLE)$/) as string,
        });
        expect(answer.message, `${left} left`).toMatch(/no space|full|ENOSPC/i);
      }
      await free();
      // With space again, what could not be written is: by and by.
      if (!(answer instanceof Error))
        expect(await withTimeout(8_000, `the end with ${left} left`, (answer as Run).wait())).toMatchObject({
          exit: { reason: "exit", code: 3 },
        });
    }
    await waitFor(
      "nothing is left in the middle",
      async () => (await supervisor.listRuns({ states: ["starting", "running", "exiting"] })).length === 0,
    );
    for (const { exit } of await supervisor.listRuns())
      expect(["exit", "spawn-error"]).toContain(exit?.reason);
    // Runs that never were leave no directories behind.
    const runs = await readdir(join(supervisor.home, "instances", supervisor.instanceId, "runs"));
    const known = new Set((await supervisor.listRuns()).map(({ runId }) => runId));
    expect(runs.filter((runId) => !known.has(runId))).toEqual([]);
  });

  test("under a flood that keeps the newest: the run ends, what is kept is true, what is not is counted", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    const { supervisor, fill, free, file } = await tight("8m", 8 * MIB);
    const length = 12 * MIB;
    const path = await file(length);
    const run = await supervisor.spawn(shellInput(`read line; cat '${path}'; exit 3`));
    await fill(2 * MIB);
    await run.write("go\n");
    await waitFor("the program has written it all", async () => {
      return (await findProcessesOfRun(run.runId)).length === 0;
    });
    await free();
    const record = await withTimeout(8_000, "the end", run.wait());
    expect(record).toMatchObject({ exit: { reason: "exit", code: 3 }, emptiness: "proven" });
    let at = 0;
    for await (const { offset, bytes } of run.follow({ streams: ["stdout"] })) {
      expect(offset).toBeGreaterThanOrEqual(at);
      expect(hash(bytes)).toBe(hash(bytePattern(bytes.length, offset)));
      at = offset + bytes.length;
    }
    const { stdout } = await readExitFile(supervisor, run.runId).catch(() => ({ stdout: null }));
    if (stdout !== null) expect(stdout).toMatchObject({ end: length, dropped: stdout.start });
  });

  test("under a stream with back-pressure: stopping works at once, and what nobody has acked is not thrown away", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    const { supervisor, fill, free, file } = await tight("8m", 8 * MIB);
    plantLookalike("sleep", "3072");
    const path = await file(4 * MIB);
    const run = await supervisor.spawn(shellInput(`read line; sleep 3072 & exec cat '${path}'`), {
      stdout: { policy: "back-pressure" },
      graceMs: 200,
    });
    await fill(2 * MIB);
    await run.write("go\n");
    let stored = 0;
    await waitFor("the spool has stopped growing", async () => {
      const before = stored;
      stored = (await spoolUsage(supervisor, run.runId)).end;
      return stored > MIB && stored === before;
    });
    expect(stored).toBeLessThan(3 * MIB);
    const began = performance.now();
    await run.cancel({ actor: "test" });
    await waitFor("no process of it is left", async () => (await findProcessesOfRun(run.runId)).length === 0);
    expect(performance.now() - began).toBeLessThan(scaled(3_000));
    await free();
    const record = await withTimeout(8_000, "the end on record", run.wait());
    expect(record).toMatchObject({ exit: { reason: "manual-cancel", actor: "test" }, emptiness: "proven" });
    const chunks = [];
    for await (const chunk of run.follow({ streams: ["stdout"] })) chunks.push(chunk);
    const kept = Buffer.concat(chunks.map(({ bytes }) => bytes));
    expect(chunks[0]?.offset).toBe(0);
    expect(kept.length).toBeGreaterThanOrEqual(stored);
    expect(hash(kept)).toBe(hash(bytePattern(kept.length)));
  });

  test("that has space again: the program goes on where it waited, and not a byte is lost", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    const { supervisor, fill, free, file } = await tight("8m", 8 * MIB);
    const length = 4 * MIB;
    const path = await file(length);
    const run = await supervisor.spawn(shellInput(`read line; exec cat '${path}'`), {
      stdout: { policy: "back-pressure" },
    });
    await fill(MIB);
    await run.write("go\n");
    let stored = 0;
    await waitFor("the spool has stopped growing", async () => {
      const before = stored;
      stored = (await spoolUsage(supervisor, run.runId)).end;
      return stored > MIB / 2 && stored === before;
    });
    await free();
    const parts: Uint8Array[] = [];
    for await (const { bytes } of run.follow({ streams: ["stdout"], ack: true })) parts.push(bytes);
    expect(hash(Buffer.concat(parts))).toBe(hash(bytePattern(length)));
    expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
  });

  test("is not taken for the program's silence, neither by owner nor by anchor", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    const { supervisor, fill, free, file } = await tight("8m", 8 * MIB);
    const path = await file(4 * MIB);
    const noOutputTimeoutMs = 1_000;
    const run = await supervisor.spawn(shellInput(`read line; cat '${path}'; exit 3`), {
      stdout: { policy: "back-pressure" },
      noOutputTimeoutMs,
      graceMs: 100,
    });
    await fill(MIB);
    await run.write("go\n");
    await waitFor("the spool is full", async () => (await spoolUsage(supervisor, run.runId)).end > MIB / 2);
    await new Promise((resolve) => setTimeout(resolve, noOutputTimeoutMs + defaults.backstopMs + 400));
    expect.soft(run.firstStop).toBeNull();
    await free();
    for await (const _ of run.follow({ ack: true })) continue;
    expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 3 });
  });
});
