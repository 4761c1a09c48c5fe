import { createPalette } from "../../../src/cli/print/colours-and-progress.js";
import { describe, expect, test } from "vitest";
import type { ProcessEvidence } from "../../../src/anchor/host-interface.js";
import { describeRun } from "../../../src/cli/runs/show.js";
import type { RunEvent } from "../../../src/model/run-event.js";
import { REAPED_USAGE, type RunRecord } from "../../../src/model/run.js";
import type { RunProcesses } from "../../../src/supervisor/inspect/live-processes.js";
import { processEvidence } from "../../support/supervisor/fake-host.js";
import { sampleRunExit, sampleRunRecord } from "../../support/store/run-samples.js";

const noProcesses: RunProcesses = {
  anchor: null,
  root: null,
  processes: [],
  claims: [],
  unknown: "it has ended",
};

function seen(facts: Partial<RunProcesses>): RunProcesses {
  return { ...noProcesses, unknown: null, processes: facts.anchor?.descendants ?? [], ...facts };
}

function shown(
  record: RunRecord,
  look: RunProcesses = noProcesses,
  events: readonly RunEvent[] = [],
): string {
  return describeRun(record, look, events, 62_000, createPalette(false)).join("\n");
}

function evidence(pid: number, facts: Partial<ProcessEvidence> = {}): ProcessEvidence {
  return processEvidence({
    identity: { pid, startTime: 5, uniqueId: "1" },
    parentPid: 1,
    processGroupId: pid,
    sessionId: pid,
    command: "anchor",
    ...facts,
  });
}

const running = sampleRunRecord({ state: "running", exit: null, endedAt: null, emptiness: null });

describe("a live run", () => {
  const child = (pid: number, parentPid: number, sessionId: number, command: string, state = "S") => ({
    identity: { pid, startTime: 1, uniqueId: null },
    parentPid,
    sessionId,
    command,
    state,
    cpuMs: 0,
    rssKb: 0,
    ports: [],
  });

  test("is shown with its process tree, orphans and detached processes included", () => {
    const anchor = evidence(100, {
      descendants: [
        child(101, 100, 101, "npm"),
        child(102, 101, 101, "node"),
        child(103, 102, 101, "esbuild", "D"),
        child(104, 100, 104, "daemon"),
      ],
    });
    expect(shown(running, seen({ anchor, root: evidence(101) }))).toContain(
      [
        "  100 anchor",
        "  ├─ 101 npm  (the command)",
        "  │  └─ 102 node",
        "  │     └─ 103 esbuild  (uninterruptible)",
        "  └─ 104 daemon  (session 104)",
      ].join("\n"),
    );
  });

  test("is shown with recorded identities and their current state", () => {
    const text = shown(running, seen({ anchor: evidence(100, { alive: false }), root: evidence(101) }));
    expect(text).toContain("leader        pid 101, start 6: alive, verified");
    expect(text).toContain("anchor        pid 100, start 5, unique 1: gone");
    expect(text).toContain("tier          subreaper+launcher+unique");
    expect(text).toContain("note          no cgroup");
  });

  test("is not confused with another process that has its pid", () => {
    const root = evidence(101, { matches: false, command: "innocent" });
    const text = shown(running, seen({ root }));
    expect(text).toContain("another process has its pid now");
    expect(text).toContain("none is alive");
    expect(text).not.toContain("innocent");
  });

  test("shows why its processes could not be inspected", () => {
    expect(shown(running, seen({ unknown: "no\nbinary" }))).toContain("not inspected: no␊binary");
  });

  test("is shown although the parents form a cycle", () => {
    const anchor = evidence(100, {
      descendants: [child(101, 102, 1, "a"), child(102, 101, 1, "b"), child(100, 100, 1, "c")],
    });
    expect(shown(running, seen({ anchor }))).toContain("100 anchor");
  });
});

describe("an ended run", () => {
  test("is shown with reason, actor, status and leftovers", () => {
    const text = shown(
      sampleRunRecord({
        exit: { ...sampleRunExit, reason: "manual-cancel", actor: "cli:me", code: null, signal: "SIGTERM" },
        residue: [{ pid: 7, startTime: 1, kind: "background", command: "sleep" }],
        residueCount: 3,
        labels: { ticket: "42" },
        usage: { ...REAPED_USAGE, cpuMs: 1_500, peakKb: 2_048, processes: 4 },
      }),
    );
    expect(text).toContain("reason     manual-cancel");
    expect(text).toContain("actor      cli:me");
    expect(text).toContain("status     SIGTERM (from anchor)");
    expect(text).toContain("leftovers (3)\n  7 sleep (background)\n  and 2 more");
    expect(text).toContain("ticket=42");
    expect(text).toContain("1.5s of CPU, 2 MiB in its largest process, processes seen: 4");
    expect(text).not.toContain("\nprocesses");
  });

  test("is shown with its events, and only the last output heartbeat", () => {
    const facts = { runId: "run_1", at: 0, rootPid: 101, descendants: 0 };
    const events: RunEvent[] = [
      { ...facts, seq: 1, type: "spawn", data: { tier: "cgroup", command: "x" } },
      { ...facts, seq: 2, type: "output", data: { stdout: 1, stderr: 0 } },
      { ...facts, seq: 3, type: "output", data: { stdout: 2_048, stderr: 0 } },
      {
        ...facts,
        seq: 4,
        type: "cancel",
        data: { reason: "manual-cancel", actor: "cli:me", requestId: "r1" },
      },
      { ...facts, seq: 5, type: "escape", data: { residue: [{ pid: 7, kind: "detached", command: "d" }] } },
      { ...facts, seq: 6, type: "cleanup", data: { mode: "cgroup", residue: 2, survivors: 0 } },
      { ...facts, seq: 7, type: "attach", data: { epoch: 2, decision: "continue" } },
      {
        ...facts,
        seq: 8,
        type: "exit",
        data: { reason: "exit", actor: "", code: 0, signal: null, emptiness: "proven" },
      },
    ];
    const text = shown(sampleRunRecord(), noProcesses, events);
    expect(text).toContain("spawn      pid 101, cgroup");
    expect(text).not.toContain("1 bytes stdout");
    expect(text).toContain("output     2 KiB stdout, 0 bytes stderr so far");
    expect(text).toContain("cancel     manual-cancel by cli:me (r1)");
    expect(text).toContain("escape     7 d (detached)");
    expect(text).toContain("cleanup    2 ended besides the leader, 0 surviving, by cgroup");
    expect(text).toContain("attach     epoch 2: continue");
    expect(text).toContain("exit       exit, 0, emptiness proven");
  });

  test("is shown without control characters", () => {
    const text = shown(
      sampleRunRecord({
        command: "a\x1b[31m",
        cwd: "/tmp/\x1b]0;x\x07",
        labels: { "k\n": "v\r" },
        exit: { ...sampleRunExit, detail: "\x9b2J", actor: "\u202eevil" },
        residue: [{ pid: 1, startTime: 1, kind: "detached", command: "\x1b[2J" }],
        residueCount: 1,
      }),
    );
    expect(text.replaceAll("\n", "")).not.toMatch(/[\x00-\x1f\x7f-\x9f\u202a-\u202e]/);
  });
});
