import { expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import { RunGate } from "../../support/cli/recovery-fixture.js";
import { BatchCli, gatewayAndCliForFile } from "../../support/cli/batch-cli.js";
import { waitForText } from "../../support/cli/cli-fixture.js";

const shared = gatewayAndCliForFile();

async function json<Value>(...words: readonly string[]): Promise<Value> {
  const { code, stdout, stderr } = await shared.batchCli.holdfast("process", ...words, "--json");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout) as Value;
}

async function listed(...words: readonly string[]): Promise<string[]> {
  return (await json<RunRecord[]>("list", ...words)).map(({ runId }) => runId);
}

async function wrote(text: string): Promise<string> {
  const runId = await shared.gatewayFixture.startRun({ argv: ["printf", text] });
  await shared.gatewayFixture.waitForEnd(runId);
  return runId;
}

test("list shows open and ended runs; removed and cleared runs stay on record", async () => {
  const open = await shared.gatewayFixture.startScript("sleep 7020");
  const ended = await wrote("x");
  const removed = await shared.gatewayFixture.startScript("sleep 7021");
  expect(await json("remove", removed)).toMatchObject({ runId: removed, removed: true, stopping: true });
  expect(await shared.gatewayFixture.waitForEnd(removed)).toMatchObject({ emptiness: "proven" });
  expect(await listed()).toEqual([ended, open]);
  expect((await shared.batchCli.holdfast("process", "list")).stdout).toMatch(
    new RegExp(`${ended} +exit 0 .*printf x`),
  );
  expect(await json("clear")).toEqual({ cleared: 1 });
  expect(await listed()).toEqual([open]);
  expect(await listed("--all")).toEqual([removed, ended, open]);
  expect(await listed("--all", "--limit", "1")).toEqual([removed]);
  const runs = async (...words: readonly string[]) =>
    (
      JSON.parse((await shared.batchCli.holdfast("runs", "list", "--json", ...words)).stdout) as RunRecord[]
    ).map(({ runId }) => runId);
  expect(await runs("--state", "exited")).toEqual([]);
  expect(await runs("--all")).toEqual([removed, ended, open]);
  expect(await shared.batchCli.holdfast("process", "clear")).toMatchObject({
    code: 0,
    stdout: "removed 0 ended runs from lists; --all lists them\n",
  });
});

test("with a session's token, list and clear are that session's own", async () => {
  const client = await shared.gatewayFixture.client();
  const { token } = await client.openSession({ body: { key: "s", execRules: [{ effect: "allow" }] } });
  await using own = new BatchCli({
    ...shared.gatewayFixture.env,
    HOLDFAST_TOKEN: token,
    HOLDFAST_RUN_ID: "run_000000000000",
  });
  const others = await wrote("other");
  const { run } = await client.exec({ body: { argv: ["true"], sessionKey: "s" } });
  const list = async () =>
    (JSON.parse((await own.holdfast("process", "list", "--json")).stdout) as RunRecord[]).map(
      ({ runId }) => runId,
    );
  expect(await list()).toEqual([run.runId]);
  expect((await own.holdfast("process", "log", others)).code).toBe(1);
  expect((await own.holdfast("process", "clear")).stdout).toContain("removed 1 ended run");
  expect(await list()).toEqual([]);
  expect(await listed()).toContain(others);
});

test("log gives the last lines, lines from one on, or bytes from one on, of one stream", async () => {
  const runId = await shared.gatewayFixture.startScript(
    "printf 'one\\ntwo\\nthr\\033[31mee\\nfour\\n'; echo no >&2",
  );
  await shared.gatewayFixture.waitForEnd(runId);
  const log = async (...words: readonly string[]) =>
    (await shared.batchCli.holdfast("process", "log", runId, ...words)).stdout;
  expect(await log()).toBe("one\ntwo\nthree\nfour\n");
  expect(await log("-n", "1")).toBe("four\n");
  expect(await log("--skip", "1", "--lines", "1")).toBe("two\n");
  expect(await log("--offset", "4", "--bytes", "6")).toBe("two\nth");
  expect(await log("--stream", "stderr")).toBe("no\n");
  expect(await log("--raw", "--skip", "2", "-n", "1")).toBe("thr\u001b[31mee\n");
  expect(await json("log", runId, "--offset", "4", "--bytes", "6")).toEqual({
    stream: "stdout",
    offset: 4,
    lost: 0,
    nextOffset: 10,
    text: "two\nth",
    skipped: 0,
    ended: false,
  });
  expect(
    await shared.batchCli.holdfast("process", "log", runId, "--offset", "1", "--skip", "1"),
  ).toMatchObject({
    code: 2,
  });
});

test("log follows until the run has ended", async () => {
  await using gate = await RunGate.create();
  const runId = await shared.gatewayFixture.startScript(`echo one; read line <'${gate.path}'; echo two`);
  const { child, finished } = shared.gatewayFixture.start("process", "log", runId, "--follow");
  await waitForText(child.stdout, "one");
  await gate.release();
  expect(await finished).toMatchObject({ code: 0, stdout: "one\ntwo\n" });
});

test("what steers says what was done, when asked for JSON", async () => {
  const runId = await shared.gatewayFixture.startBash();
  expect(await json("write", runId, "ech")).toEqual({ runId, bytes: 3, closed: false });
  expect(await json("send-keys", runId, "o", "Space")).toEqual({ runId, keys: ["o", "Space"] });
  expect(await json("paste", runId, "1")).toEqual({
    runId,
    characters: 1,
    bracketed: true,
    submitted: false,
  });
  expect(await json("submit", runId, "$((1+1))")).toEqual({
    runId,
    characters: 8,
    bracketed: true,
    submitted: true,
  });
  expect(await json("resize", runId, "30", "100")).toEqual({ runId, rows: 30, cols: 100 });
  await shared.gatewayFixture.waitForScreen(runId, "12\nready>");
  expect(await json("kill", runId, "--grace", "0")).toMatchObject({ outcome: "gone" });
});
