import { readdir, rename, truncate, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { OutputChunk, Problem, Run, Supervisor } from "../../../src/supervisor/api.js";
import {
  plantLookalike,
  realSupervisor,
  shellInput,
  temporaryHome,
} from "../../support/supervisor/real-supervisor.js";
import { runDirectory, spoolUsage } from "../../support/run-files.js";
import { waitFor } from "../../support/wait-for.js";

/** Numbered lines of nine bytes: the content at an offset can be computed. */
const LINE = 9;
/** Prints the lines `from` to `to` for each line of input that names them. */
const PRINTER = "while read from to; do seq -f '%08.0f' $from $to; done";
/** A limit of 64 KiB has segments of 8 KiB. */
const BOUND = 64 * 1024;
const SEGMENT = BOUND / 8;

function expectedAt(offset: number, length: number): Buffer {
  const first = Math.floor(offset / LINE) + 1;
  const count = Math.ceil((offset + length) / LINE) - first + 1;
  const lines = Array.from({ length: count }, (_, at) => `${String(first + at).padStart(8, "0")}\n`).join("");
  return Buffer.from(lines)
    .subarray(offset - (first - 1) * LINE)
    .subarray(0, length);
}

/** Checks each byte and that every gap is reported. Returns the number of delivered and lost bytes. */
function checkChunks(chunks: readonly OutputChunk[], from = 0) {
  let next = from;
  let bytes = 0;
  let lost = 0;
  for (const chunk of chunks) {
    expect(chunk.offset).toBeGreaterThanOrEqual(next);
    if (chunk.offset > next) expect(chunk.lost).toBe(chunk.offset - next);
    lost += chunk.lost ?? 0;
    expect(Buffer.from(chunk.bytes).equals(expectedAt(chunk.offset, chunk.bytes.length))).toBe(true);
    bytes += chunk.bytes.length;
    next = chunk.offset + chunk.bytes.length;
  }
  return { bytes, lost, end: next };
}

async function segments(supervisor: Supervisor, runId: string): Promise<string[]> {
  const directory = runDirectory(supervisor, runId);
  const names = (await readdir(directory)).filter((name) => name.startsWith("stdout."));
  return names.toSorted().map((name) => join(directory, name));
}

/** Prints lines, and waits until the anchor has stored them. */
async function print(supervisor: Supervisor, run: Run, from: number, to: number): Promise<void> {
  await run.write(`${from} ${to}\n`);
  await waitFor(
    `${to} lines`,
    async () => (await spoolUsage(supervisor, run.runId)).end >= to * LINE || stored(run) >= to * LINE,
  );
}

const follows = new WeakMap<Run, { readonly chunks: OutputChunk[]; readonly done: Promise<void> }>();

function stored(run: Run): number {
  const last = follows.get(run)?.chunks.at(-1);
  return last === undefined ? 0 : last.offset + last.bytes.length;
}

/** A live follower, from the start. */
function follow(run: Run): { readonly chunks: OutputChunk[]; readonly done: Promise<void> } {
  const chunks: OutputChunk[] = [];
  const done = (async () => {
    for await (const chunk of run.follow({ streams: ["stdout"] })) chunks.push(chunk);
  })();
  follows.set(run, { chunks, done });
  return { chunks, done };
}

async function readAll(supervisor: Supervisor, runId: string): Promise<OutputChunk[]> {
  const chunks: OutputChunk[] = [];
  for (let offset = 0; ;) {
    const chunk = await supervisor.readOutput(runId, "stdout", { offset });
    if (chunk.bytes.length === 0 && chunk.offset <= offset) return chunks;
    chunks.push(chunk);
    offset = chunk.offset + chunk.bytes.length;
  }
}

const damagesOfNewest: readonly [string, (path: string) => Promise<void>][] = [
  ["truncated to nothing", (path) => truncate(path, 0)],
  ["moved away", (path) => rename(path, join(path, "..", "elsewhere"))],
  [
    "truncated and filled with zeros to a greater length",
    async (path) => {
      await truncate(path, 0);
      await truncate(path, 500_000);
    },
  ],
  [
    "replaced by another file",
    async (path) => {
      await unlink(path);
      await writeFile(path, Buffer.alloc(700));
    },
  ],
];

async function startPrinter() {
  const problems: Problem[] = [];
  plantLookalike("sleep", "3081");
  const home = await temporaryHome();
  const supervisor = await realSupervisor({
    home,
    instanceId: "in_spool",
    onProblem: (problem) => problems.push(problem),
  });
  const run = await supervisor.spawn(shellInput(PRINTER), { stdout: { boundBytes: BOUND } });
  return { supervisor, run, home, problems };
}

describe("the newest spool file", () => {
  for (const [how, damage] of damagesOfNewest)
    test(`${how}: every reader gets the written bytes and the number of missing ones`, async () => {
      const { supervisor, run, problems } = await startPrinter();
      const live = follow(run);
      await print(supervisor, run, 1, 400);
      await waitFor("the follower has read everything", () => stored(run) === 400 * LINE);
      await damage((await segments(supervisor, run.runId)).at(-1) ?? "");
      await print(supervisor, run, 401, 800);
      await print(supervisor, run, 801, 3000);
      await run.closeStdin();
      expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
      await live.done;
      // The follower had read everything before the damage.
      expect(checkChunks(live.chunks)).toEqual({ bytes: 3000 * LINE, lost: 0, end: 3000 * LINE });
      const late = checkChunks(await readAll(supervisor, run.runId));
      expect(late.end).toBe(3000 * LINE);
      expect(late.lost).toBeGreaterThan(0);
      expect(late.bytes + late.lost).toBe(3000 * LINE);
      const events = await supervisor.listEvents({ runId: run.runId });
      expect(events.filter(({ type }) => type === "output-lost").at(-1)?.data).toEqual({
        stream: "stdout",
        lost: late.lost,
      });
      expect(problems.at(-1)?.message).toContain(`${late.lost} bytes of stdout are missing`);
    });

  test("truncated before the end without further output: the missing bytes are reported at the end", async () => {
    const { supervisor, run } = await startPrinter();
    await print(supervisor, run, 1, 400);
    await truncate((await segments(supervisor, run.runId)).at(-1) ?? "", 900);
    await run.closeStdin();
    await run.wait();
    const chunks = await readAll(supervisor, run.runId);
    expect(checkChunks(chunks)).toEqual({ bytes: 900, lost: 400 * LINE - 900, end: 400 * LINE });
    const late = follow(run);
    await late.done;
    expect(checkChunks(late.chunks)).toMatchObject({ lost: 400 * LINE - 900 });
  });

  test("truncated after the end of the run: the missing bytes are reported", async () => {
    const { supervisor, run } = await startPrinter();
    await print(supervisor, run, 1, 400);
    await run.closeStdin();
    await run.wait();
    await truncate((await segments(supervisor, run.runId)).at(-1) ?? "", 900);
    expect(checkChunks(await readAll(supervisor, run.runId))).toEqual({
      bytes: 900,
      lost: 400 * LINE - 900,
      end: 400 * LINE,
    });
  });

  test("truncated repeatedly while a follower reads", async () => {
    const { supervisor, run } = await startPrinter();
    const live = follow(run);
    for (let round = 0; round < 80; round++) {
      await print(supervisor, run, round * 50 + 1, round * 50 + 50);
      await truncate((await segments(supervisor, run.runId)).at(-1) ?? "", round % 3 === 0 ? 0 : 100);
    }
    await run.closeStdin();
    await run.wait();
    await live.done;
    const { bytes, lost, end } = checkChunks(live.chunks);
    expect(end).toBe(80 * 50 * LINE);
    expect(bytes + lost).toBe(end);
    const late = checkAfterDrops(await readAll(supervisor, run.runId));
    expect(late).toBe(end);
  });
});

/** Like `checkChunks`, but the oldest bytes may have been dropped. Returns the end. */
function checkAfterDrops(chunks: readonly OutputChunk[]): number {
  let end = 0;
  for (const { offset, bytes } of chunks) {
    expect(offset).toBeGreaterThanOrEqual(end);
    expect(Buffer.from(bytes).equals(expectedAt(offset, bytes.length))).toBe(true);
    end = offset + bytes.length;
  }
  return end;
}

describe("an older spool file", () => {
  for (const [how, kept, damage] of [
    ["truncated in the middle", 1000, (path: string) => truncate(path, 1000)],
    ["removed", 0, unlink],
  ] as const)
    test(`${how}: a reader gets the other bytes and the number of missing ones`, async () => {
      const { supervisor, run } = await startPrinter();
      await print(supervisor, run, 1, 3000);
      const before = await run.read("stdout", { offset: 0, maxBytes: 500 });
      expect(checkChunks([before]).bytes).toBe(500);
      const paths = await segments(supervisor, run.runId);
      expect(paths.length).toBeGreaterThan(2);
      await damage(paths[1] ?? "");
      const whole = await readAll(supervisor, run.runId);
      expect(checkChunks(whole)).toEqual({
        bytes: 3000 * LINE - SEGMENT + kept,
        lost: SEGMENT - kept,
        end: 3000 * LINE,
      });
      await run.closeStdin();
      await run.wait();
      const events = await supervisor.listEvents({ runId: run.runId });
      expect(events.filter(({ type }) => type === "output-lost").map(({ data }) => data)).toEqual([
        { stream: "stdout", lost: SEGMENT - kept },
      ]);
    });
});

describe("with back-pressure", () => {
  test("a reader continues after missing bytes, and so does the program", async () => {
    plantLookalike("sleep", "3082");
    const supervisor = await realSupervisor({ onProblem: () => {} });
    const run = await supervisor.spawn(shellInput("seq -f '%08.0f' 1 20000"), {
      stdout: { boundBytes: BOUND, policy: "back-pressure" },
    });
    await waitFor("the limit is reached", async () => (await segments(supervisor, run.runId)).length >= 8);
    for (const path of (await segments(supervisor, run.runId)).slice(2)) await truncate(path, 0);
    const chunks: OutputChunk[] = [];
    for await (const chunk of run.follow({ streams: ["stdout"], ack: true })) chunks.push(chunk);
    const { bytes, lost, end } = checkChunks(chunks);
    expect(end).toBe(20_000 * LINE);
    expect(bytes + lost).toBe(end);
    expect(lost).toBeGreaterThan(0);
    expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
  });
});

test("the next supervisor delivers the rest and reports the gap", async () => {
  const { supervisor, run, home } = await startPrinter();
  await print(supervisor, run, 1, 400);
  await supervisor.close({ leaveRuns: true });
  const next = await realSupervisor({ home, instanceId: "in_spool", onProblem: () => {} });
  await truncate((await segments(next, run.runId)).at(-1) ?? "", 0);
  expect(await next.recover()).toHaveLength(1);
  const again = next.run(run.runId);
  if (again === null) throw new Error("not recovered");
  const live = follow(again);
  await again.write("401 900\n");
  await again.closeStdin();
  expect((await again.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
  await live.done;
  expect(checkChunks(live.chunks)).toEqual({ bytes: 500 * LINE, lost: 400 * LINE, end: 900 * LINE });
});
