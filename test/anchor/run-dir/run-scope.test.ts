import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { RunScope } from "../../../src/anchor/host.js";
import { RunDirectories } from "../../../src/anchor/run-dir/run-directories.js";
import { encodeScope } from "../../../src/anchor/protocol/requests.js";

const scope: RunScope = {
  sessionKey: "chat-7",
  sessionId: "ses_1",
  backendId: "acp",
  agentId: "codex",
  taskId: "task_1",
  labels: { ticket: "42" },
  kind: "task",
  command: "sh -c 'sleep 1'",
};

test("a scope that does not fit loses its command first, then its labels, and keeps its ids", () => {
  expect(JSON.parse(encodeScope(scope))).toEqual(scope);
  const command = "x".repeat(3_000);
  expect(JSON.parse(encodeScope({ ...scope, command }))).toEqual({ ...scope, command: "" });
  const labels = { long: "ä".repeat(1_500) };
  expect(JSON.parse(encodeScope({ ...scope, labels }))).toEqual({ ...scope, command: "", labels: {} });
  const sessionKey = "k".repeat(3_000);
  expect(JSON.parse(encodeScope({ ...scope, sessionKey }))).toMatchObject({
    taskId: "task_1",
    sessionKey: null,
  });
  for (const each of [{ command }, { labels }, { sessionKey }])
    expect(Buffer.byteLength(encodeScope({ ...scope, ...each }))).toBeLessThan(2_048);
});

test("a run directory has the scope of its run and the tasks that were assigned later", async () => {
  const instance = await mkdtemp(join(tmpdir(), "hf-scope-"));
  onTestFinished(() => rm(instance, { recursive: true }));
  const runs = new RunDirectories(instance);
  expect(await runs.readScope("run_a")).toBeNull();
  await mkdir(runs.pathOf("run_a"), { recursive: true });
  const file = join(runs.pathOf("run_a"), "anchor.json");
  for (const broken of ["", "{}", '{"scope":""}', '{"scope":"{"}', '{"scope":"[]"}', '{"scope":{}}']) {
    await writeFile(file, broken);
    expect(await runs.readScope("run_a"), broken).toBeNull();
  }
  await writeFile(file, JSON.stringify({ scope: encodeScope(scope) }));
  await runs.addTask("run_a", "task_2");
  const { taskId, ...rest } = scope;
  const found = { ...rest, taskIds: [taskId, "task_2"] };
  // An older anchor did not record when a task became a service.
  expect(await runs.readScope("run_a")).toEqual({ ...found, kind: null });
  await writeFile(file, JSON.stringify({ scope: encodeScope({ ...scope, kind: "service" }) }));
  expect(await runs.readScope("run_a")).toEqual({ ...found, kind: "service" });
  for (const kind of ["task", "service"]) {
    await writeFile(file, JSON.stringify({ kind, scope: encodeScope(scope) }));
    expect(await runs.readScope("run_a")).toEqual({ ...found, kind });
  }
  await expect(runs.addTask("run_a", "../x")).rejects.toMatchObject({ code: "BAD_INPUT" });
});
