import { chmodSync, copyFileSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import type { RunRecord } from "../../src/store/run-record.js";
import type { SpawnOptions } from "../../src/supervisor/api.js";
import { Crowd } from "./crowd.js";
import { isAlive, marked, until, type Living } from "./living.js";
import { anybody, Seat, tiers, type Tier } from "./seat.js";
import { Supervised } from "./supervised.js";

const linger = fileURLToPath(new URL("children/linger.sh", import.meta.url));
const graceMs = 250;

/** How people start things. Each keeps something of its own between the run and the command, except for the last. */
const ways: Readonly<Record<string, (token: string) => string[]>> = {
  "bash -lc": (token) => ["bash", "-lc", `./linger ${token}; exit $?`],
  "sh -c": (token) => ["sh", "-c", `./linger ${token}; exit $?`],
  "npm run": (token) => ["npm", "run", "linger", "--", token],
  npx: (token) => ["npx", "--no-install", "linger", token],
  "direct exec": (token) => ["./linger", token],
};

/** npm takes a second to get going, several on a loaded machine; a deadline before that would show nothing. */
const timeoutMs = 5_000;

describe.concurrent.each(Object.keys(ways))("a command through %s", (way) => {
  for (const tier of [tiers.none, tiers.cgroup])
    test(`leaves nobody after a cancel, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      const record = await supervise(way, tier, {}, (run) => run.cancel({ actor: "test:me" }));
      expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "test:me" });
    });

  test("leaves nobody after a timeout", async () => {
    const record = await supervise(way, tiers.none, { timeoutMs }, () => {});
    expect(record.exit).toMatchObject({ reason: "overall-timeout", actor: "deadline" });
  });

  test("leaves nobody after its own end, and its exit code is the true one", async () => {
    const end = (run: Supervised): void => run.write("7\n");
    const failed = await supervise(way, tiers.none, {}, end);
    expect(failed.exit).toMatchObject({ reason: "ownership-escape", actor: "", code: 7, signal: null });
    expect(failed.residue.map(({ kind }) => kind).toSorted((a, b) => a.localeCompare(b))).toEqual([
      "background",
      "detached",
    ]);
    const swept = await supervise(way, tiers.none, { onEscape: "sweep" }, end);
    expect(swept.exit).toMatchObject({ reason: "exit", actor: "", code: 7, signal: null });
    expect(swept.residueCount).toBe(2);
  });
});

async function supervise(
  way: string,
  tier: Tier,
  options: SpawnOptions,
  end: (run: Supervised) => void,
): Promise<RunRecord> {
  await using seat = Seat.take(anybody, tier);
  preparePackage(seat.directory);
  await using crowd = await Crowd.ofSleeper(seat);
  await using supervised = await Supervised.open(seat);
  const argv = ways[way]?.(crowd.token) ?? [];
  const env = { npm_config_cache: join(seat.directory, "npm"), npm_config_update_notifier: "false" };
  const { runId } = await supervised.spawn({ io: "pipe", argv }, { graceMs, env, ...options });
  await supervised.saw("up");
  const everybody = await until("both children are what they will be", () => {
    const sleepers = crowd.others().filter(({ argv: [command] }) => command === "sleep");
    return sleepers.length === 2 ? [...sleepers, ...marked(runId)] : null;
  });
  end(supervised);
  const { record } = await supervised.hear("ended");
  const left: Living[] = [...everybody.filter(isAlive), ...crowd.others(), ...marked(runId)];
  expect(left, "survivors").toEqual([]);
  expect(record).toMatchObject({ runId, state: "exited", emptiness: "proven" });
  expect(record.tier).toMatch(tier.recorded);
  await supervised.close();
  expect(supervised.problems).toEqual([]);
  expect(crowd.missing(), "the bystander").toEqual([]);
  return record;
}

/** A package with a script and a binary of its own. */
function preparePackage(directory: string): void {
  const bin = join(directory, "node_modules/.bin");
  mkdirSync(bin, { recursive: true });
  copyFileSync(linger, join(directory, "linger"));
  chmodSync(join(directory, "linger"), 0o755);
  symlinkSync("../../linger", join(bin, "linger"));
  const scripts = { linger: "./linger" };
  writeFileSync(
    join(directory, "package.json"),
    JSON.stringify({ name: "lingering", version: "1.0.0", private: true, scripts }),
  );
}
