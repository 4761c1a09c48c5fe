import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findByCommandLine } from "../../support/live-processes.js";
import { RecoveryFixture } from "../../support/cli/recovery-fixture.js";

interface Answer {
  readonly role: string;
  readonly verified: boolean;
  readonly runId: string;
  readonly evidence: readonly string[];
  readonly gateway: { readonly instanceId: string; readonly alive: boolean | null };
}

/** One run with a child, and a grandchild with its own session and no environment. */
let fixture: RecoveryFixture;
let runId: string;
const hidden = `7021.${process.pid}`;
const SCRIPT = `sleep 7022 & (env -i setsid sleep ${hidden} &); sleep 0.1; echo up; wait`;

beforeAll(async () => {
  fixture = await RecoveryFixture.open();
  [runId = ""] = await fixture.leaveOrphans([
    SCRIPT,
    { sessionKey: "chat-7", agentId: "codex", labels: { a: "b" } },
  ]);
});
afterAll(async () => {
  await fixture.holdfast("runs", "cancel", runId, "--kill");
  await fixture[Symbol.asyncDispose]();
});

describe("who", () => {
  test("identifies the anchor and the leader by their recorded identity", async () => {
    const { anchor, root } = await fixture.record(runId);
    const of = (pid: number | undefined): Promise<Answer> => fixture.json<Answer>("who", String(pid));
    const [first, second] = await Promise.all([of(anchor?.pid), of(root?.pid)]);
    expect(first).toMatchObject({ role: "anchor", verified: true, runId });
    expect(second).toMatchObject({
      role: "leader",
      verified: true,
      runId,
      sessionKey: "chat-7",
      agentId: "codex",
      labels: { a: "b" },
      gateway: { alive: false },
    });
    expect(second.evidence[0]).toContain(`pid ${root?.pid}, start ${root?.startTime}`);
  });

  test("identifies a grandchild with its own session and an empty environment", async () => {
    const [grandchild] = findByCommandLine(hidden).filter(({ argv }) => argv[0] === "sleep");
    const answer = await fixture.json<Answer>("who", String(grandchild?.pid));
    expect(answer).toMatchObject({ role: "member", verified: true, runId });
    expect(answer.evidence.join("\n")).toMatch(/cgroup|descends from the run's anchor/);
    expect(answer.evidence.join("\n")).not.toContain("marker");
    const { stdout } = await fixture.holdfast("who", String(grandchild?.pid));
    expect(stdout).toMatch(new RegExp(`^${grandchild?.pid} is a process of ${runId}\n`));
    expect(stdout).toMatch(/\n {2}gateway +in_\w+ \(gone\), epoch 1\n/);
  });

  test("reports a process with a copied marker as a claim", async () => {
    const { leaseId } = await fixture.record(runId);
    const stranger = spawn("sleep", ["7023"], {
      stdio: "ignore",
      env: { ...process.env, HOLDFAST_RUN_ID: runId, HOLDFAST_LEASE_ID: leaseId },
    });
    await once(stranger, "spawn");
    try {
      expect(await fixture.json<Answer>("who", String(stranger.pid))).toMatchObject({
        role: "claims",
        verified: false,
      });
      const { stdout } = await fixture.holdfast("who", String(stranger.pid));
      expect(stdout).toContain(`${stranger.pid} claims to be a process of ${runId}\n`);
      expect(stdout).toContain("neither ancestry nor cgroup confirms it");
    } finally {
      stranger.kill("SIGKILL");
      await once(stranger, "exit");
    }
    expect(await fixture.holdfast("who", String(stranger.pid))).toMatchObject({
      code: 1,
      stdout: "",
      stderr: `holdfast: process ${stranger.pid} belongs to no known run: there is no such process\n`,
    });
  });

  test("refuses processes that belong to no run", async () => {
    const asked = await Promise.all([1, process.pid].map((pid) => fixture.holdfast("who", String(pid))));
    for (const { code, stdout, stderr } of asked) {
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toMatch(
        /^holdfast: process \d+ belongs to no known run: neither its ancestry nor its cgroup[^\n]+\n$/,
      );
    }
  });

  test.each(["0", "-1", "x", "1.5", "99999999999", ""])("refuses %j", async (number) => {
    const { code, stdout, stderr } = await fixture.holdfast("who", number);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^holdfast: [^\n]+\n$/);
  });
});
