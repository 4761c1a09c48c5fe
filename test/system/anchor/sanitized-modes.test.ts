import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { listMarkedProcesses, reapMarkedProcess } from "../../../src/anchor/inspect/by-marker.js";
import { inspectCgroups } from "../../../src/anchor/inspect/cgroups.js";
import { inspectProcesses } from "../../../src/anchor/inspect/processes.js";
import { anchorEnvironment } from "../../../src/anchor/binary.js";
import { plantBystander } from "../../support/live-processes.js";

const project = fileURLToPath(new URL("../../..", import.meta.url));
const anchor = join(project, "build/anchor-asan");
const canCompile =
  spawnSync(process.env["CC"] ?? "cc", ["--version"], { stdio: "ignore", shell: true }).status === 0;

let reports: string;

beforeAll(async () => {
  reports = await mkdtemp(join(tmpdir(), "hf-reports-"));
  process.env["ASAN_OPTIONS"] = `log_path=${reports}/asan:exitcode=99`;
  process.env["UBSAN_OPTIONS"] = `log_path=${reports}/ubsan:halt_on_error=1:print_stacktrace=1`;
  const build = [join(project, "scripts/build-anchor.mjs"), "--asan"];
  if (canCompile) await promisify(execFile)(process.execPath, build);
});

afterEach(async () => {
  const found = await Promise.all(
    (await readdir(reports)).map((name) => readFile(join(reports, name), "utf8")),
  );
  expect(found).toEqual([]);
});

afterAll(async () => {
  await rm(reports, { recursive: true, force: true });
});

/** Deterministic, so that a failure can be reproduced. */
function noise(seed: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let state = seed;
  for (let at = 0; at < length; at += 1) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    bytes[at] = state >>> 24;
  }
  return bytes;
}

describe.skipIf(!canCompile)("under the sanitizers, without a report:", () => {
  test("odd command lines and environments", async () => {
    plantBystander("sleep", ["3044"], { ...process.env, SANITIZED: "odd" });
    const words = Array.from({ length: 300 }, (_, at) =>
      noise(at + 1, 90)
        .toString("latin1")
        .replaceAll("\0", ""),
    );
    const env = Object.fromEntries(words.map((word, at) => [`V${at}`, word]));
    const child = spawn("/bin/sh", ["-c", "echo up; read line", ...words], {
      stdio: ["pipe", "pipe", "ignore"],
      detached: true,
      env: { ...env, SANITIZED: "odd", BIG: "x".repeat(100_000) },
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    await once(child.stdout, "data");
    const [found] = await inspectProcesses(anchor, [child.pid ?? 0]);
    expect(found?.argv.length).toBeGreaterThan(50);
    const others = ["BIG", ...Array.from({ length: 15 }, (_, at) => `V${at}`)];
    const marked = await listMarkedProcesses(anchor, "SANITIZED", others);
    expect(marked.map(({ identity }) => identity)).toContainEqual(found?.identity);
    if (found === undefined) return;
    const request = { identity: found.identity, variable: "SANITIZED", value: "odd", graceMs: 500 };
    expect(await reapMarkedProcess(anchor, { ...request, value: "even" })).toMatchObject({ verified: false });
    expect(await reapMarkedProcess(anchor, request)).toMatchObject({ verified: true, killed: 1 });
  });

  test("a long input in many pieces, and invalid cgroups", async () => {
    const wanted = Array.from({ length: 30_000 }, (_, at) => (at % 5000 === 0 ? process.pid : 2 ** 23 + at));
    expect(await inspectProcesses(anchor, wanted)).toHaveLength(wanted.length);
    const paths = [
      "/",
      "/x",
      `/${"y".repeat(900)}`,
      "/holdfast-a/runs/b",
      "//",
      "/..",
      `/${"ü".repeat(400)}`,
    ];
    const answers = await inspectCgroups(
      anchor,
      paths.map((path) => ({ path, inode: "18446744073709551615" })),
    );
    expect(answers.every((answer) => answer === "gone" || answer === "unknown")).toBe(true);
  });

  test("random input is refused", async () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      const child = spawn(anchor, ["inspect"], {
        stdio: ["pipe", "ignore", "ignore"],
        env: anchorEnvironment(),
      });
      child.stdin.on("error", () => {});
      child.stdin.end(seed === 1 ? Buffer.alloc(200_000, "1") : noise(seed, seed * 7_000));
      expect((await once(child, "exit"))[0]).toBe(2);
    }
  });
});
