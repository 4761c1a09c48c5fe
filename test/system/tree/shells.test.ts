import { chmodSync, copyFileSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import type { SpawnOptions } from "../../../src/supervisor/api.js";
import { TokenProcesses } from "../../support/supervisor/token-processes.js";
import { isAlive, findByRunMarker, type LiveProcess } from "../../support/live-processes.js";
import { currentUser, Sandbox, tiers, type SandboxTier } from "../../support/sandbox.js";
import { soak } from "../../support/scale.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { waitFor } from "../../support/wait-for.js";

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

/** Each way and each end at least once; npm takes a second of processor time to get going. */
const ordinary: Readonly<Record<string, readonly ("stop" | "cgroup" | "timeout" | "end")[]>> = {
  "bash -lc": ["stop"],
  "sh -c": ["cgroup", "end"],
  "npm run": ["stop"],
  npx: ["end"],
  "direct exec": ["stop", "timeout"],
};

describe.concurrent.each(Object.keys(ways))("a command through %s", (way) => {
  const isTested = (end: "stop" | "cgroup" | "timeout" | "end"): boolean =>
    soak || ordinary[way]?.includes(end) === true;

  for (const tier of [tiers.none, tiers.cgroup])
    test.runIf(isTested(tier === tiers.none ? "stop" : "cgroup"))(
      `leaves no process after a stop, tier ${tier.name}`,
      async ({ skip }) => {
        if (tier.whyNot !== null) skip(tier.whyNot);
        const record = await supervise(way, tier, {}, (run) => run.cancel({ actor: "test:me" }));
        expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "test:me" });
      },
    );

  test.runIf(isTested("timeout"))("leaves no process after a timeout", async () => {
    const record = await supervise(way, tiers.none, { timeoutMs }, () => {});
    expect(record.exit).toMatchObject({ reason: "overall-timeout", actor: "deadline" });
  });

  test.runIf(isTested("end"))("leaves no process after its own end, and has its own exit code", async () => {
    const end = (run: LibraryProcess): void => run.write("7\n");
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
  tier: SandboxTier,
  options: SpawnOptions,
  end: (run: LibraryProcess) => void,
): Promise<RunRecord> {
  await using sandbox = Sandbox.create(currentUser, tier);
  preparePackage(sandbox.directory);
  await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
  await using libraryProcess = await LibraryProcess.open(sandbox);
  const argv = ways[way]?.(tokenProcesses.token) ?? [];
  const env = { npm_config_cache: join(sandbox.directory, "npm"), npm_config_update_notifier: "false" };
  const { runId } = await libraryProcess.spawn({ io: "pipe", argv }, { graceMs, env, ...options });
  await libraryProcess.waitForOutput("up");
  const everybody = await waitFor("both children are what they will be", () => {
    const sleepers = tokenProcesses.ofRuns().filter(({ argv: [command] }) => command === "sleep");
    return sleepers.length === 2 ? [...sleepers, ...findByRunMarker(runId)] : null;
  });
  end(libraryProcess);
  const { record } = await libraryProcess.receive("ended");
  const left: LiveProcess[] = [
    ...everybody.filter(isAlive),
    ...tokenProcesses.ofRuns(),
    ...findByRunMarker(runId),
  ];
  expect(left, "survivors").toEqual([]);
  expect(record).toMatchObject({ runId, state: "exited", emptiness: "proven" });
  expect(record.tier).toMatch(tier.recorded);
  await libraryProcess.close();
  expect(libraryProcess.problems).toEqual([]);
  expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
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
