import { describe, expect, test } from "vitest";
import type { AnchorExit, RunFiles } from "../../../src/anchor/host-interface.js";
import { END_REASONS } from "../../../src/model/enums.js";
import { REAPED_USAGE } from "../../../src/model/run.js";
import {
  outcomeOfExit,
  outcomeOfRunFiles,
  parseEndReason,
} from "../../../src/supervisor/end/terminal-record.js";

const end = { start: 0, end: 0, dropped: 0 };
const ended: AnchorExit = {
  runId: "run_1",
  executed: true,
  reason: "exit",
  actor: "",
  requestId: "",
  leader: { code: 0, signal: null },
  spawnError: null,
  residue: [],
  residueCount: 0,
  killMode: "none",
  tier: null,
  tierNote: null,
  emptiness: "proven",
  stdout: end,
  stderr: end,
  processes: 1,
  usage: { ...REAPED_USAGE, cpuMs: 0, peakKb: 0 },
  limitHit: null,
  durationMs: 1,
  endedAt: null,
};
const nothing: RunFiles = { exit: null, leader: null, firstStop: null, swept: null };

describe("the outcome from the anchor's exit", () => {
  test.each<[string, Partial<AnchorExit>, Partial<ReturnType<typeof outcomeOfExit>>]>([
    ["an exit code", { leader: { code: 3, signal: null } }, { reason: "exit", code: 3, signal: null }],
    [
      "a signal, by name",
      { reason: "signal", leader: { code: null, signal: 11 } },
      { reason: "signal", code: null, signal: "SIGSEGV" },
    ],
    [
      "the actor of the stop, and the leader's own status beside the reason",
      { reason: "overall-timeout", actor: "deadline", leader: { code: null, signal: 15 } },
      { reason: "overall-timeout", actor: "deadline", signal: "SIGTERM" },
    ],
    [
      "an escape of a leader that succeeded",
      { reason: "ownership-escape", actor: "anchor" },
      { reason: "ownership-escape", code: 0 },
    ],
    [
      "a command that could not be run: errno and a sentence",
      {
        executed: false,
        reason: "spawn-error",
        leader: null,
        spawnError: { errno: 2, step: "exec", message: "" },
      },
      {
        reason: "spawn-error",
        code: null,
        errno: 2,
        source: "none",
        detail: expect.stringMatching(/^cannot run/),
      },
    ],
    [
      "a stop before the first instruction",
      { executed: false, reason: "manual-cancel", leader: null },
      { reason: "manual-cancel", source: "none", detail: expect.stringContaining("before the command ran") },
    ],
    [
      "a reason of a newer anchor, by what it implies",
      { reason: "out-of-memory", leader: { code: null, signal: 9 } },
      { reason: "signal", signal: "SIGKILL", detail: expect.stringContaining(`"out-of-memory"`) },
    ],
    ["the same with a code", { reason: "?" }, { reason: "exit", code: 0 }],
    ["the same without any status", { reason: "?", leader: null }, { reason: "lost", source: "none" }],
    ["the same, never executed", { reason: "?", executed: false, leader: null }, { reason: "spawn-error" }],
  ])("%s", (_, exit, outcome) => {
    expect(outcomeOfExit({ ...ended, ...exit }, "anchor")).toMatchObject(outcome);
  });

  test("names the command, if it is known", () => {
    const spawnError = { errno: 2, step: "exec", message: "" };
    const exit = { ...ended, executed: false, reason: "spawn-error", leader: null, spawnError };
    expect(outcomeOfExit(exit, "anchor", { cwd: "/", command: "nothere" }).detail).toContain("nothere");
  });

  test("contains the source of the status", () => {
    expect(outcomeOfExit(ended, "anchor").source).toBe("anchor");
    expect(outcomeOfExit(ended, "exit-file").source).toBe("exit-file");
  });

  test.each(END_REASONS)("every end reason is known: %s", (reason) => {
    expect(parseEndReason(reason)).toBe(reason);
    expect(outcomeOfExit({ ...ended, reason }, "anchor").reason).toBe(reason);
  });

  test.each(["", "Exit", "toString", "constructor"])("%j is no reason", (text) => {
    expect(parseEndReason(text)).toBeNull();
  });
});

describe("the outcome from the files of a dead anchor", () => {
  test("an exit file contains everything", () => {
    expect(outcomeOfRunFiles({ ...nothing, exit: ended })).toEqual(outcomeOfExit(ended, "exit-file"));
  });

  test("without files, the run is lost and has no status", () => {
    expect(outcomeOfRunFiles(nothing)).toEqual({
      reason: "lost",
      actor: "",
      code: null,
      signal: null,
      source: "none",
      detail: "its anchor ended without a report",
      errno: null,
      limitHit: null,
    });
  });

  test("the leader's status is recorded for a lost run", () => {
    expect(outcomeOfRunFiles({ ...nothing, leader: { code: 7, signal: null } })).toMatchObject({
      reason: "lost",
      code: 7,
      source: "leader-file",
    });
  });

  test.each<[string, Partial<RunFiles>, string]>([
    [
      "what the launcher killed",
      { swept: { anchorSignal: 9, killed: 3, killMode: "pid", emptiness: "proven" } },
      "its anchor was killed by SIGKILL; the launcher killed the 3 processes that it left",
    ],
    [
      "that there was nothing to kill",
      { swept: { anchorSignal: null, killed: 0, killMode: "none", emptiness: "proven" } },
      "its anchor ended without finishing; it left no process",
    ],
    [
      "that emptiness is not proven",
      { swept: { anchorSignal: 9, killed: 1, killMode: "pid", emptiness: "unproven" } },
      "its anchor was killed by SIGKILL; the launcher killed 1 process but could not prove that none is left",
    ],
    [
      "that a stop had been requested",
      { firstStop: { reason: "manual-cancel", actor: "cli:me", requestId: "r" } },
      "its anchor ended without a report; a stop had been requested (manual-cancel)",
    ],
  ])("the detail says %s", (_, remains, detail) => {
    expect(outcomeOfRunFiles({ ...nothing, ...remains }).detail).toBe(detail);
  });
});
