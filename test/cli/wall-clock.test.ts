import { existsSync, readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { Field, PAIR } from "./field.js";
import { sees } from "./stage.js";

const YEAR = 365 * 24 * 3_600_000;
const TIMEOUT_MS = 8_000;
/** A live owner decides first, then the anchor; the rest is a loaded machine. */
const LATE_MS = defaults.backstopMs + 3_000;

/** Where Debian and its kin put it. */
const library = readdirSync("/usr/lib")
  .map((name) => `/usr/lib/${name}/faketime/libfaketimeMT.so.1`)
  .find((path) => existsSync(path));

/** A process whose wall clock is off by so much; its monotonic clock is everybody's. */
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
        await using field = await Field.open();
        await field.holdfast("run", "--", "sh", "-c", "exit 3");
        const owned = field.start("run", "--", "sh", "-c", PAIR);
        await sees(owned.child.stdout, "up");
        const [{ runId: theirs = "" } = {}, { runId: over = "" } = {}] = await field.json<
          { readonly runId?: string }[]
        >("runs", "list", "--all");
        const [short = "", long = ""] = await field.leave(
          [PAIR, { timeoutMs: TIMEOUT_MS, graceMs: 500 }],
          [PAIR, { timeoutMs: 600_000 }],
        );
        for (const runId of [short, long])
          field.sql(`update runs set lease_expires_at = 0 where run_id = '${runId}'`);
        const before = await field.record(theirs);
        const first = await field.gateway();
        await first.kill();
        const second = await field.gateway(env(offMs));
        const { at } = (await second.hears("ready")) as unknown as { at: number };
        expect(Math.abs(at - Date.now() - offMs), "the clock is off").toBeLessThan(3_600_000);
        expect(await second.hears("ready")).toMatchObject({ held: 2 });

        const ended = await field.ended(short);
        expect(ended).toMatchObject({ exit: { reason: "overall-timeout" }, emptiness: "proven" });
        const took = (ended.endedAt ?? 0) - (ended.startedAt ?? 0);
        expect(took).toBeGreaterThan(TIMEOUT_MS - 500);
        expect(took).toBeLessThan(TIMEOUT_MS + LATE_MS);
        expect(await field.membersOf(long)).toHaveLength(3);
        const { ownerInstanceId, leaseEpoch } = before;
        expect(await field.record(theirs)).toMatchObject({ state: "running", ownerInstanceId, leaseEpoch });
        await field.holdfast("runs", "cancel", long);
        expect(await field.ended(long)).toMatchObject({ exit: { reason: "manual-cancel" } });
        expect(await field.record(over)).toMatchObject({ exit: { code: 3 } });
        expect(second.news.filter(({ type }) => type === "problem")).toEqual([]);
        await second.kill("SIGTERM");
        owned.child.kill("SIGTERM");
        expect(await owned.finished).toMatchObject({ code: 143 });
      });
});
