import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { removeRunCgroups } from "../../../src/anchor/instance/instance-directories.js";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { parseExit } from "../../../src/anchor/run-dir/parse-run-files.js";
import { CgroupFreezer } from "../../support/anchor/cgroups.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import type { RawLink } from "../../support/anchor/raw-link.js";
import { plantBystander } from "../../support/bystander.js";
import { waitFor } from "../../support/wait-for.js";

const ABANDON = encodeMessage("abandon", { actor: "cli:op", requestId: "give-up" });
const STOP = encodeMessage("stop", { reason: "shutdown", actor: "test", requestId: "one", graceMs: 50 });
/** How long a launcher tries before it considers a process stuck. */
const STUCK_MS = 5_000;

/** Starts a run of two processes, of which the second cannot be killed; returns when the anchor has reported it. */
async function survived(
  launcher: RawLauncher,
  freezer: CgroupFreezer,
): Promise<{ owner: RawLink; survivor: number }> {
  // A launcher that exits before the last process dies cannot remove its cgroup.
  onTestFinished(async () => {
    launcher.disconnectAll();
    await waitFor(() => removeRunCgroups(launcher.directory, launcher.instanceId));
  });
  const owner = await launcher.run("run_a", "sleep 3041 & echo $!; wait", { killReportMs: 100 });
  await waitFor(async () => (await launcher.output("run_a")).endsWith("\n"));
  const survivor = Number(await launcher.output("run_a"));
  // Until it has called exec, it is another sh.
  await waitFor(async () => (await readFile(`/proc/${survivor}/comm`, "utf8")) === "sleep\n");
  freezer.freeze(survivor);
  owner.send(STOP);
  await waitFor(() =>
    owner.received.some((said) => said.name === "survivors" && said.json.includes(`"pid":${survivor},`)),
  );
  return { owner, survivor };
}

function anchorOf(link: RawLink): number {
  const welcome = link.received.find((said) => said.name === "welcome");
  if (welcome === undefined) throw new Error("no anchor has answered");
  return welcome.anchorPid;
}

async function stateOf(pid: number): Promise<string | null> {
  const stat = await readFile(`/proc/${pid}/stat`, "latin1").catch(() => null);
  return stat?.slice(stat.lastIndexOf(")") + 2)[0] ?? null;
}

/** CPU time in clock ticks of ten milliseconds. */
async function ticksOf(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, "latin1")).split(") ")[1]?.split(" ") ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

describe("ABANDON", () => {
  test("is refused while no process is known to have survived KILL, and changes nothing", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "trap '' TERM; echo up; while :; do sleep 0.05; done", {
      graceMs: 400,
    });
    await waitFor(async () => (await launcher.output("run_a")) !== "");
    const refused = { codeName: "bad-phase", message: expect.stringContaining("survived") };
    owner.send(ABANDON);
    expect(await owner.receive("refused")).toMatchObject(refused);
    owner.send(encodeMessage("stop", { reason: "shutdown", actor: "test", requestId: "", graceMs: null }));
    owner.send(ABANDON);
    expect(await owner.receive("refused")).toMatchObject(refused);
    const exit = parseExit((await owner.receive("exited")).json);
    expect(exit).toMatchObject({ reason: "shutdown", actor: "test", emptiness: "proven" });
  });

  test.skipIf(!CgroupFreezer.isAvailable)(
    "ends the run as lost and reports the survivors and the actor; other runs do not wait",
    async () => {
      plantBystander("sleep", ["3041"]);
      const launcher = await RawLauncher.start();
      await using freezer = new CgroupFreezer();
      const { owner, survivor } = await survived(launcher, freezer);
      const observer = await launcher.attach("run_a", 0);
      observer.send(ABANDON);
      const exit = parseExit((await owner.receive("exited")).json);
      expect(exit).toMatchObject({
        reason: "lost",
        actor: "cli:op",
        requestId: "give-up",
        emptiness: "unproven",
        residue: [{ pid: survivor, kind: "unkillable", command: "sleep" }],
        residueCount: 1,
      });
      expect(exit).toEqual(parseExit(JSON.stringify(await launcher.readRunFile("run_a", "exit.json"))));
      await owner.ended();
      expect(await stateOf(survivor)).toMatch(/[DST]/);
      // The launcher has the process now: it tries to kill it at intervals, and serves other runs.
      const before = await ticksOf(launcher.pid);
      await delay(STUCK_MS + 1_500);
      expect((await ticksOf(launcher.pid)) - before).toBeLessThan(50);
      const next = await launcher.run("run_b", "sleep 3041");
      process.kill(anchorOf(next), "SIGKILL");
      await next.ended();
      await waitFor(async () => (await launcher.readRunFile("run_b", "swept.json")) !== null, 2_000);
      expect(await launcher.readRunFile("run_b", "swept.json")).toMatchObject({ emptiness: "proven" });
    },
  );

  test.skipIf(!CgroupFreezer.isAvailable)(
    "a launcher without a holder exits although abandoned processes are alive",
    async () => {
      plantBystander("sleep", ["3041"]);
      const launcher = await RawLauncher.start();
      await using freezer = new CgroupFreezer();
      const { owner, survivor } = await survived(launcher, freezer);
      owner.send(ABANDON);
      await owner.ended();
      launcher.disconnectAll();
      await waitFor(() => !existsSync(join(launcher.directory, "launcher.sock")), STUCK_MS + 4_000);
      expect(await stateOf(survivor)).toMatch(/[DST]/);
    },
  );

  test.skipIf(!CgroupFreezer.isAvailable)(
    "a launcher without a holder exits although unkillable processes of an anchor are alive, and reports emptiness as unproven",
    async () => {
      const launcher = await RawLauncher.start();
      await using freezer = new CgroupFreezer();
      const { owner } = await survived(launcher, freezer);
      process.kill(anchorOf(owner), "SIGKILL");
      await owner.ended();
      expect(await launcher.readRunFile("run_a", "swept.json")).toBeNull();
      launcher.disconnectAll();
      await waitFor(() => !existsSync(join(launcher.directory, "launcher.sock")), STUCK_MS + 4_000);
      expect(await launcher.readRunFile("run_a", "swept.json")).toMatchObject({
        anchorSignal: 9,
        emptiness: "unproven",
      });
    },
  );
});

describe("an end that is not proven", () => {
  const end = {
    runId: "run_a",
    executed: true,
    reason: "lost",
    actor: "",
    requestId: "",
    leader: null,
    spawnError: null,
    residue: [],
    residueCount: 0,
    killMode: "pid",
    emptiness: "unproven",
    stdout: { start: 0, end: 0, dropped: 0 },
    stderr: { start: 0, end: 0, dropped: 0 },
    processes: 1,
    usage: { cpuMs: 0, peakKb: 0 },
    durationMs: 1,
  };

  test("is accepted only for a lost run", () => {
    expect(parseExit(JSON.stringify(end))).toMatchObject({ emptiness: "unproven" });
    for (const reason of ["exit", "signal", "manual-cancel", "owner-lost"])
      expect(parseExit(JSON.stringify({ ...end, reason }))).toBeNull();
  });
});
