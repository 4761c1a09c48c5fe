import { expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import { BatchCli, gatewayAndCliForFile } from "../../support/cli/batch-cli.js";

const shared = gatewayAndCliForFile();

async function json<Value>(...words: readonly string[]): Promise<Value> {
  const { code, stdout, stderr } = await shared.batchCli.holdfast("process", ...words, "--json");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout) as Value;
}

async function listed(...words: readonly string[]): Promise<string[]> {
  return (await json<RunRecord[]>("list", ...words)).map(({ runId }) => runId);
}

async function printed(text: string): Promise<string> {
  const runId = await shared.gatewayFixture.startRun({ argv: ["printf", text] });
  await shared.gatewayFixture.waitForEnd(runId);
  return runId;
}

test("list shows open and ended runs; records of removed runs stay", async () => {
  const open = await shared.gatewayFixture.startScript("sleep 7020");
  const ended = await printed("x");
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

test("with the token of a session, list and clear are limited to its runs", async () => {
  const client = await shared.gatewayFixture.client();
  const { token } = await client.openSession({ body: { key: "s", execRules: [{ effect: "allow" }] } });
  await using own = new BatchCli({
    ...shared.gatewayFixture.env,
    HOLDFAST_TOKEN: token,
    HOLDFAST_RUN_ID: "run_000000000000",
  });
  const others = await printed("other");
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
