import { createPalette } from "../../../src/cli/print/colours-and-progress.js";
import { describe, expect, test } from "vitest";
import { KnownHosts } from "../../../src/cli/client/store-hosts.js";
import { ownerWarning, ownerWarningText, runStatusText } from "../../../src/cli/print/run-status.js";
import { runTable } from "../../../src/cli/runs/run-table.js";
import { END_REASONS } from "../../../src/model/enums.js";
import type { RunRecord } from "../../../src/model/run.js";
import { displayWidth } from "../../../src/text/display-width.js";
import { sampleRunExit, sampleRunRecord } from "../../support/store/run-samples.js";

const plain = createPalette(false);

describe("the list of runs", () => {
  test("shows run, status, times, pid and command", () => {
    const records = [
      sampleRunRecord({ state: "running", exit: null, endedAt: null, emptiness: null }),
      sampleRunRecord({ runId: "run_b", exit: { ...sampleRunExit, code: 3 } }),
      sampleRunRecord({
        runId: "run_c",
        state: "starting",
        exit: null,
        startedAt: null,
        endedAt: null,
        root: null,
      }),
    ];
    expect(runTable(records, 62_000, null, plain)).toEqual([
      "RUN               STATUS    CREATED   TIME  PID  COMMAND",
      "run_0123456789ab  running   1m1s ago  1m    101  npm test",
      "run_b             exit 3    1m1s ago  2s    -    npm test",
      "run_c             starting  1m1s ago  -     -    npm test",
    ]);
  });

  test("marks open runs that have no owner, or cannot be reached from here", () => {
    const here = { hostId: "h", bootId: "b", pidNamespace: "n", timeNamespace: null };
    const open = { ...here, state: "running", exit: null, leaseExpiresAt: 10 } as const;
    const careAt = (now: number, change: Partial<RunRecord> = {}, shared = false): string | null => {
      const care = ownerWarning(sampleRunRecord({ ...open, ...change }), { here, now, shared });
      return care === null ? null : ownerWarningText(care);
    };
    expect([careAt(9), careAt(10), careAt(9, { bootId: "x" }), careAt(10, { state: "exited" })]).toEqual([
      null,
      "unowned",
      "unreachable",
      null,
    ]);
    const unowned = { kind: "unowned", silentMs: 1 } as const;
    const [, line] = runTable([sampleRunRecord({ ...open })], 62_000, null, plain, () => unowned);
    expect(line).toContain("  running, unowned  ");
    // With a shared clock, a run of another host is unreachable only when its lease has expired.
    const elsewhere = { hostId: "x", bootId: "x" };
    expect(careAt(9, elsewhere, true)).toBeNull();
    expect(careAt(30_010, elsewhere, true)).toBe("unreachable, last heartbeat 1m ago");
  });

  test("shows the host of each run if there are several", () => {
    const host = { platform: "linux", firstSeenAt: 0, lastSeenAt: 0 };
    const known = [
      { ...host, hostId: "aaaaaaaaaa", name: "alpha" },
      { ...host, hostId: "bbbbbbbbbb", name: "\x1b[31mtwin" },
      { ...host, hostId: "cccccccccc", name: "\x1b[31mtwin" },
      { ...host, hostId: "dddddddddd", name: "" },
    ];
    const records = [...known.map(({ hostId }) => hostId), "eeeeeeeeee"].map((hostId) =>
      sampleRunRecord({ hostId }),
    );
    const shown = (hosts: KnownHosts): string[] =>
      runTable(records, 62_000, null, plain, null, hosts).map((line) => line.slice(18, 34));
    expect(shown(new KnownHosts(known)).map((cell) => cell.trim().replace(/ {2}.*/, ""))).toEqual([
      "HOST",
      "alpha",
      "twin (bbbbbbbb)",
      "twin (cccccccc)",
      "dddddddd",
      "eeeeeeee",
    ]);
    expect(shown(new KnownHosts(known.slice(0, 1)))[0]).toMatch(/^STATUS/);
    const hosts = new KnownHosts(known);
    expect(hosts.resolve("alpha")).toEqual(["aaaaaaaaaa"]);
    expect(hosts.resolve("\x1b[31mtwin")).toEqual(["bbbbbbbbbb", "cccccccccc"]);
    expect(hosts.resolve("ddd")).toEqual(["dddddddddd"]);
    // A displayed name is accepted, too.
    expect(hosts.resolve("twin")).toEqual(["bbbbbbbbbb", "cccccccccc"]);
    expect(hosts.resolve("twin (cccccccc)")).toEqual(["cccccccccc"]);
    const alike = new KnownHosts([...known, { ...host, hostId: "ffffffffff", name: "al\x1b[31mpha" }]);
    expect(alike.displayName("aaaaaaaaaa")).toBe("alpha (aaaaaaaa)");
    expect(alike.resolve("alpha (aaaaaaaa)")).toEqual(["aaaaaaaaaa"]);
    for (const wanted of ["", "alph", "nobody"])
      expect(() => hosts.resolve(wanted)).toThrow(/^there is no host .*; known: alpha, twin \(bbbbbbbb\)/);
  });

  test("fits the terminal", () => {
    const [, line] = runTable([sampleRunRecord({ command: "x".repeat(500) })], 62_000, 60, plain);
    expect(displayWidth(line ?? "")).toBe(60);
    expect(line).toMatch(/x…$/);
  });

  test("cannot be forged by a command", () => {
    const [, line] = runTable(
      [sampleRunRecord({ command: "\x1b[2J\nrun_fake  exit 0" })],
      62_000,
      null,
      plain,
    );
    expect(line).not.toMatch(/[\x00-\x1f]/);
  });

  test("colours the status and nothing else", () => {
    const coloured = createPalette(true);
    const [, line] = runTable([sampleRunRecord()], 62_000, null, coloured);
    expect(line).toBe(`run_0123456789ab${coloured.green("  exit 0")}  1m1s ago  2s    -    npm test`);
  });
});

test("every reason has a status", () => {
  for (const reason of END_REASONS)
    expect(runStatusText({ state: "exited", exit: { ...sampleRunExit, reason } })).toMatch(/^\S.*$/);
});
