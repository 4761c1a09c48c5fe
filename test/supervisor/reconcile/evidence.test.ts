import { describe, expect, test } from "vitest";
import type { ProcessEvidence } from "../../../src/anchor/host-interface.js";
import type { ImportedFacts } from "../../../src/model/run.js";
import { compareImported, gatherImportedEvidence } from "../../../src/supervisor/reconcile/evidence.js";
import { commandHash } from "../../../src/text/redact.js";
import { splitShellWords } from "../../../src/text/shell-words.js";
import { sampleRunRecord } from "../../support/store/run-samples.js";
import { processEvidence } from "../../support/supervisor/fake-host.js";

const argv = ["node", "/opt/tool/wrap.mjs", "--fast"];
const facts: ImportedFacts = {
  pid: 41,
  commandHash: commandHash(argv),
  wrapperRoot: "/opt/tool",
  startTime: 7,
};

function live(change: Partial<ProcessEvidence> = {}): ProcessEvidence {
  const identity = { pid: 41, startTime: 7, uniqueId: "1" };
  return processEvidence({ identity, argv, executable: "/usr/bin/node", ...change });
}

describe("an imported record and the process with its pid", () => {
  test("match by command, path and start time", () => {
    expect(compareImported(facts, live())).toEqual({ kind: "matches" });
    expect(compareImported({ ...facts, startTime: null }, live())).toEqual({ kind: "matches" });
  });

  test("match when the stored command is quoted and the live one is not", () => {
    const stored = splitShellWords(`"node" '/opt/tool/wrap.mjs' --fast`) ?? [];
    expect(compareImported({ ...facts, commandHash: commandHash(stored) }, live())).toEqual({
      kind: "matches",
    });
  });

  test.each<[string, Partial<ProcessEvidence>]>([
    ["no process has its pid", { alive: false }],
    ["its pid is that of a zombie", { alive: false, state: "Z" }],
  ])("the process is gone when %s", (_, change) => {
    expect(compareImported(facts, live(change))).toEqual({ kind: "gone" });
  });

  test.each<[string, Partial<ImportedFacts>, Partial<ProcessEvidence>, string]>([
    ["another start time", { startTime: 8 }, {}, "was started at another time"],
    ["another word", {}, { argv: [...argv, "more"] }, "runs another command"],
    [
      "the same text in other words",
      {},
      { argv: ["node /opt/tool/wrap.mjs --fast"] },
      "runs another command",
    ],
    ["another place", { wrapperRoot: "/opt/other" }, {}, "runs no program below /opt/other"],
    ["a place that only begins alike", { wrapperRoot: "/opt/to" }, {}, "runs no program below /opt/to"],
    ["no place on file", { wrapperRoot: "" }, {}, "no wrapper root is recorded"],
    ["a relative place", { wrapperRoot: "tool" }, {}, "no wrapper root is recorded"],
  ])("differ by %s", (_, recorded, change, why) => {
    const sight = compareImported({ ...facts, ...recorded }, live(change));
    expect(sight).toMatchObject({ kind: "differs", why: expect.stringContaining(why) });
  });

  test("differ when only a later argument names the path, or a path leads out of it", () => {
    for (const words of [
      ["rm", "-rf", "x", "/opt/tool/wrap.mjs"],
      ["node", "/opt/tool/../other/wrap.mjs"],
      ["node", "wrap.mjs"],
    ])
      expect(compareImported({ ...facts, commandHash: commandHash(words) }, live({ argv: words })).kind).toBe(
        "differs",
      );
  });

  test("match by the executable, whatever its arguments", () => {
    const words = ["agent", "serve"];
    const evidence = live({ argv: words, executable: "/opt/tool/bin/agent" });
    expect(compareImported({ ...facts, commandHash: commandHash(words) }, evidence)).toEqual({
      kind: "matches",
    });
  });

  test("nothing is concluded when the command line, or the process, cannot be read", async () => {
    expect(compareImported(facts, live({ argv: [] }))).toMatchObject({ kind: "unknown" });
    const record = sampleRunRecord({ imported: facts });
    const machine = { hostId: "h", bootId: "b", pidNamespace: "n", timeNamespace: "time:[1]" };
    const broken = { machine, inspectProcesses: () => Promise.reject(new Error("no /proc")) };
    expect(await gatherImportedEvidence(broken, record)).toMatchObject({ kind: "unknown" });
    expect(await gatherImportedEvidence({ machine, inspectProcesses: async () => [] }, record)).toMatchObject(
      {
        kind: "unknown",
      },
    );
    const seeing = { machine, inspectProcesses: async () => [live()] };
    expect(await gatherImportedEvidence(seeing, record)).toEqual({ kind: "matches" });
    const elsewhen = { ...record, timeNamespace: "time:[2] boottime+1000000000ns" };
    const differently = { ...elsewhen, imported: { ...facts, startTime: 5 } };
    expect(await gatherImportedEvidence(seeing, differently)).toMatchObject({ kind: "unknown" });
  });
});
