import { existsSync, readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { RecoveryFixture, TWO_PROCESSES } from "../../support/cli/recovery-fixture.js";
import { waitForText } from "../../support/cli/cli-fixture.js";
import { scaled } from "../../support/scale.js";

const YEAR = 365 * 24 * 3_600_000;
const TIMEOUT_MS = 8_000;
/** A live owner decides first, then the anchor; plus time for a loaded machine. */
const LATE_MS = defaults.backstopMs + 3_000;

/** Where Debian and its kin put it. */
const library = readdirSync("/usr/lib")
  .map((name) => `/usr/lib/${name}/faketime/libfaketimeMT.so.1`)
  .find((path) => existsSync(path));

/** A process whose wall clock is off by so much; its monotonic clock is right. */
const ways = {
  libfaketime: (offMs: number): NodeJS.ProcessEnv => ({
    LD_PRELOAD: library,
    FAKETIME: `${offMs < 0 ? "-" : "+"}${Math.abs(offMs) / 1_000}`,
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
    DONT_FAKE_MONOTONIC: "1",
  }),
  "a Date of its own": (offMs: number): NodeJS.ProcessEnv => {
    const code = `const now = Date.now; Date.now = () => now() + ${offMs};`;
    return { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(code)}` };
  },
};

describe.concurrent("a gateway whose wall clock is a year off", () => {
  for (const [way, env] of Object.entries(ways))
    for (const [where, offMs] of [
      ["ahead", YEAR],
      ["behind", -YEAR],
    ] as const)
      test(`${where}, by ${way}: steals nothing, and keeps every deadline`, async (context) => {
        if (way === "libfaketime" && library === undefined) context.skip("libfaketime is not installed");
        await using fixture = await RecoveryFixture.open();
        await fixture.holdfast("run", "--", "sh", "-c", "exit 3");
        const owned = fixture.start("run", "--", "sh", "-c", TWO_PROCESSES);
        await waitForText(owned.child.stdout, "up");
        const [{ runId: theirs = "" } = {}, { runId: over = "" } = {}] = await fixture.json<
          { readonly runId?: string }[]
        >("runs", "list", "--all");
        const [short = "", long = ""] = await fixture.leaveRuns(
          [TWO_PROCESSES, { timeoutMs: TIMEOUT_MS, graceMs: 500 }],
          [TWO_PROCESSES, { timeoutMs: 600_000 }],
        );
        for (const runId of [short, long])
          fixture.sql(`update runs set lease_expires_at = 0 where run_id = '${runId}'`);
        const before = await fixture.record(theirs);
        const first = await fixture.gateway();
        await first.kill();
        const second = await fixture.gateway(env(offMs));
        const ready = (await second.waitForEvent("ready")) as unknown as { at: number; held: number };
        expect(Math.abs(ready.at - Date.now() - offMs), "the clock is off").toBeLessThan(3_600_000);
        // The short one may reach its timeout while a loaded machine starts the gateways.
        expect([1, 2]).toContain(ready.held);

        const ended = await fixture.waitForEnd(short);
        expect(ended).toMatchObject({ exit: { reason: "overall-timeout" }, emptiness: "proven" });
        const took = (ended.endedAt ?? 0) - (ended.startedAt ?? 0);
        expect(took).toBeGreaterThan(TIMEOUT_MS - 500);
        expect(took).toBeLessThan(scaled(TIMEOUT_MS + LATE_MS));
        expect(await fixture.membersOf(long)).toHaveLength(3);
        const { ownerInstanceId, leaseEpoch } = before;
        expect(await fixture.record(theirs)).toMatchObject({ state: "running", ownerInstanceId, leaseEpoch });
        await fixture.holdfast("runs", "cancel", long);
        expect(await fixture.waitForEnd(long)).toMatchObject({ exit: { reason: "manual-cancel" } });
        expect(await fixture.record(over)).toMatchObject({ exit: { code: 3 } });
        expect(second.events.filter(({ type }) => type === "problem")).toEqual([]);
        await second.kill("SIGTERM");
        owned.child.kill("SIGTERM");
        expect(await owned.finished).toMatchObject({ code: 143 });
      });
});
