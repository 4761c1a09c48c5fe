import { spawnSync } from "node:child_process";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import type { ResponseOf } from "../../../src/api/contract.js";
import { createClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { newRunId } from "../../../src/model/ids.js";
import { withTimeout } from "../../support/wait-for.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { RecoveryFixture, RunGate } from "../../support/cli/recovery-fixture.js";
import type { CliProcess } from "../../support/cli/cli-fixture.js";

/** Far above the bound that is promised, far below the time for which the store stays as it is. */
const SOON_MS = 9_000;

const PENDING =
  /^holdfast: (run_\w+) ended with exit code 3; the store cannot be written \(.+\), its record is pending\n$/m;

const THROUGH_GATEWAY = { HOLDFAST_IN_PROCESS: undefined };

/** Another process holds the write lock. */
function lock(fixture: RecoveryFixture): () => void {
  const holder = new DatabaseSync(fixture.store, { timeout: 5_000 });
  holder.exec("begin immediate");
  return () => {
    holder.exec("rollback");
    holder.close();
  };
}

function said(going: CliProcess, text: string): Promise<void> {
  let seen = "";
  return new Promise((resolve) => {
    going.child.stdout.on("data", (bytes: Buffer) => {
      seen += bytes.toString();
      if (seen.includes(text)) resolve();
    });
    going.child.stderr.on("data", (bytes: Buffer) => {
      seen += bytes.toString();
      if (seen.includes(text)) resolve();
    });
  });
}

async function oneEnd(fixture: RecoveryFixture, runId: string): Promise<void> {
  expect(await fixture.waitForEnd(runId, 30_000)).toMatchObject({
    exit: { reason: "exit", code: 3 },
    emptiness: "proven",
  });
  expect((await fixture.events(runId)).filter(({ type }) => type === "exit")).toHaveLength(1);
}

function runIdOf(stderr: string): string {
  return PENDING.exec(stderr)?.[1] ?? expect.fail(`nothing is said of a pending record: ${stderr}`);
}

describe.concurrent("a command that ends while the store cannot be written", () => {
  test("through a gateway, store locked: its caller gets the exit code at once, the record follows", async () => {
    await using fixture = await RecoveryFixture.open();
    await using gate = await RunGate.create();
    const gateway = await fixture.gateway();
    const run = fixture.startWith(THROUGH_GATEWAY, "run", "--", "sh", "-c", gate.waitScript(3));
    await said(run, "up");
    const unlock = lock(fixture);
    await gate.release();
    const { code, stdout, stderr } = await withTimeout(SOON_MS, "the caller is answered", run.finished);
    expect({ code, stdout }).toEqual({ code: 3, stdout: "up\n" });
    const runId = runIdOf(stderr);
    expect(await fixture.record(runId)).toMatchObject({ state: "running" });
    unlock();
    await oneEnd(fixture, runId);
    await gateway.kill("SIGTERM");
  });

  test("in process, store locked: the exit code at once, and the record when a gateway starts", async () => {
    await using fixture = await RecoveryFixture.open();
    await using gate = await RunGate.create();
    const run = fixture.start("run", "--in-process", "--json", "--", "sh", "-c", gate.waitScript(3));
    await said(run, "up");
    const unlock = lock(fixture);
    await gate.release();
    const { code, stdout, stderr } = await withTimeout(SOON_MS, "the caller is answered", run.finished);
    expect(code).toBe(3);
    const runId = runIdOf(stderr);
    expect(JSON.parse(stdout)).toMatchObject({
      runId,
      state: "exited",
      exit: { reason: "exit", code: 3 },
      recordPending: expect.stringMatching(/./) as string,
    });
    unlock();
    fixture.expireLeases();
    const gateway = await fixture.gateway();
    await oneEnd(fixture, runId);
    await gateway.kill("SIGTERM");
  });

  test("through a gateway, disk full: its caller gets the exit code at once, the record follows", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("16m");
    await using fixture = await RecoveryFixture.open(disk.path);
    await using gate = await RunGate.create();
    const gateway = await fixture.gateway();
    const run = fixture.startWith(THROUGH_GATEWAY, "run", "--", "sh", "-c", gate.waitScript(3));
    await said(run, "up");
    fixture.sql("pragma wal_checkpoint(truncate)");
    const filler = join(disk.path, "..", "filler");
    await writeFile(filler, Buffer.alloc(64 * 1024 * 1024)).catch(() => {});
    await gate.release();
    const { code, stderr } = await withTimeout(SOON_MS, "the caller is answered", run.finished);
    expect(code).toBe(3);
    expect(stderr).toContain("no space is left");
    const runId = runIdOf(stderr);
    await rm(filler);
    await oneEnd(fixture, runId);
    await gateway.kill("SIGTERM");
  });

  test("through a gateway that may write no larger files (ulimit -f): the same", async () => {
    await using fixture = await RecoveryFixture.open();
    await using gate = await RunGate.create();
    const gateway = await fixture.gateway();
    const run = fixture.startWith(THROUGH_GATEWAY, "run", "--", "sh", "-c", gate.waitScript(3));
    await said(run, "up");
    const limit = (bytes: string): void => {
      expect(spawnSync("prlimit", [`--pid=${gateway.pid}`, `--fsize=${bytes}:`]).status).toBe(0);
    };
    limit("0");
    await gate.release();
    const { code, stderr } = await withTimeout(SOON_MS, "the caller is answered", run.finished);
    expect(code).toBe(3);
    const runId = runIdOf(stderr);
    limit("unlimited");
    await oneEnd(fixture, runId);
    await gateway.kill("SIGTERM");
  });

  test("exec, poll and tasks wait answer with the end and why its record is pending", async () => {
    await using fixture = await RecoveryFixture.open();
    await using gate = await RunGate.create();
    await using other = await RunGate.create();
    const gateway = await fixture.gateway();
    const token = (await readOperatorToken(fixture.home)) ?? "";
    const client = createClient({ socketPath: gatewaySocketPath(fixture.home), token });
    const body = { argv: ["sh", "-c", gate.waitScript(3)], runId: newRunId() };
    const answering = client.exec({ body: { ...body, yieldMs: 60_000 } });
    const detached = await fixture.holdfast("run", "-d", "--", "sh", "-c", other.waitScript(3));
    const taskRun = detached.stdout.trim();
    const waiting = fixture.start("tasks", "wait", taskRun, "--json");
    for (const runId of [body.runId, taskRun]) {
      const query = { waitMs: 30_000 };
      for (;;) {
        const news = await client.poll({ params: { runId }, query }).catch(() => null);
        if (news?.output.some(({ text }) => text.includes("up")) === true) break;
      }
    }
    const unlock = lock(fixture);
    await gate.release();
    await other.release();
    const answer = await withTimeout(SOON_MS, "exec answers", answering);
    expect(answer).toMatchObject({
      running: false,
      failure: "exit-code",
      run: { state: "exited", exit: { code: 3 } },
      recordPending: expect.stringMatching(/./) as string,
    });
    const polled = await withTimeout(
      SOON_MS,
      "poll answers",
      fixture.json<ResponseOf<"poll">>("process", "poll", taskRun),
    );
    expect(polled).toMatchObject({ run: { state: "exited", exit: { code: 3 } } });
    expect(polled.recordPending).not.toBeNull();
    const waited = await withTimeout(SOON_MS, "tasks wait ends", waiting.finished);
    expect(waited).toMatchObject({ code: 1, stderr: expect.stringMatching(PENDING) as string });
    expect(JSON.parse(waited.stdout)).toMatchObject({ status: "failed", runId: taskRun });
    unlock();
    for (const runId of [body.runId, taskRun]) await oneEnd(fixture, runId);
    expect(await fixture.holdfast("tasks", "wait", taskRun)).toMatchObject({ code: 1 });
    await gateway.kill("SIGTERM");
  });
});
