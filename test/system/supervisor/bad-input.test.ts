import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { BadInput, SpawnFailed } from "../../../src/errors.js";
import { OPEN_RUN_STATES } from "../../../src/model/run.js";
import type { CommandInput, SpawnOptions, Supervisor } from "../../../src/supervisor/api.js";
import { openSupervisor } from "../../../src/supervisor/open.js";
import {
  plantLookalike,
  readOutput,
  realSupervisor,
  shellInput,
  temporaryHome,
  waitForOutput,
} from "../../support/supervisor/real-supervisor.js";

const TRUE: CommandInput = { io: "pipe", argv: ["true"] };

/** Callers in JavaScript are not checked by the compiler. */
function untyped(value: unknown): never {
  return value as never;
}

async function errorOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => expect.fail("it was not refused"),
    (error: unknown) => error,
  );
}

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
      expect(await supervisor.listRuns({ states: OPEN_RUN_STATES })).toEqual([]);
    },
  );

  test("in a directory with too long a path does not run elsewhere instead", async () => {
    const supervisor = await realSupervisor();
    const proof = join(supervisor.home, "ran");
    const cwd = join(supervisor.home, "d/".repeat(2_100));
    const error = await errorOf(supervisor.spawn(shellInput(`: >'${proof}'`), { cwd }));
    expect((error as Error).message).toMatch(/directory/);
    await expect(readFile(proof)).rejects.toMatchObject({ code: "ENOENT" });
    expect(await supervisor.listRuns({ states: OPEN_RUN_STATES })).toEqual([]);
  });

  test("is not one with many short arguments", async () => {
    const supervisor = await realSupervisor();
    const many = Array.from({ length: 70_000 }, () => "x");
    const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/sh", "-c", "echo $#", "sh", ...many] });
    expect((await readOutput(run)).stdout).toBe("70000\n");
    await run.wait();
  });
});

test("invalid arguments of a run's methods are refused, and the run works afterwards", async () => {
  const supervisor = await realSupervisor();
  plantLookalike("sleep", "3071");
  const run = await supervisor.spawn(shellInput("echo ready; cat; sleep 3071"), { graceMs: 100 });
  await waitForOutput(run, "ready");
  const fieldOf = async (call: () => unknown): Promise<string> => {
    const error = await errorOf((async () => call())());
    expect(error).toBeInstanceOf(BadInput);
    return (error as BadInput).field;
  };
  for (const options of [
    { graceMs: -1 },
    { graceMs: Number.NaN },
    { graceMs: Infinity },
    { actor: 5 },
    { requestId: {} },
    { reason: "because" },
  ])
    expect(await fieldOf(() => run.cancel(untyped(options)))).toBe(Object.keys(options)[0]);
  expect({ state: run.state, firstStop: run.firstStop }).toEqual({ state: "running", firstStop: null });
  for (const data of [5, null, undefined, {}, ["a"]])
    expect(await fieldOf(() => run.write(untyped(data)))).toBe("data");
  expect(await fieldOf(() => run.read("stdout", { offset: -1 }))).toBe("offset");
  expect(await fieldOf(() => run.read("stdout", { offset: 0.5 }))).toBe("offset");
  expect(await fieldOf(() => run.read("stderr", { maxBytes: Number.NaN }))).toBe("maxBytes");
  expect(await fieldOf(() => run.ack("stdout", -1))).toBe("offset");
  expect(await fieldOf(() => run.resize({ rows: 0, cols: 1 }))).toBe("size");
  expect(await fieldOf(() => run.resize({ rows: 1, cols: 65_536 }))).toBe("size");
  // An offset without output yet is valid.
  expect((await run.read("stdout", { offset: 2 ** 40 })).bytes).toHaveLength(0);
  await run.write("still here\n");
  await waitForOutput(run, "still here");
  await run.cancel({ actor: "test", graceMs: 0 });
  expect((await run.wait()).exit).toMatchObject({ reason: "manual-cancel", actor: "test" });
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
    const supervisor = await realSupervisor({ home });
    expect((await (await supervisor.spawn(TRUE)).wait()).exit).toMatchObject({ code: 0 });
  });
});
