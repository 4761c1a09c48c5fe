import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import type { RunExit, RunRecord } from "../../../src/model/run.js";
import type { SpawnOptions } from "../../../src/supervisor/api.js";
import { TokenProcesses } from "../../support/supervisor/token-processes.js";
import {
  descendantsOf,
  isAlive,
  findByCommandLine,
  findByRunMarker,
  signalProcess,
  type LiveProcess,
} from "../../support/live-processes.js";
import {
  currentUser,
  nobodyUser,
  Sandbox,
  tiers,
  type SandboxTier,
  type SandboxUser,
} from "../../support/sandbox.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { CHROMIUM, CHROMIUM_FLAGS, whyNoBrowser } from "../../support/dashboard/browser.js";
import { waitFor } from "../../support/wait-for.js";

const graceMs = 300;
/** A browser is up within a second or two; on a loaded machine within several. */
const timeoutMs = 6_000;

interface End {
  readonly name: string;
  readonly user: SandboxUser;
  readonly tier: SandboxTier;
  readonly options: SpawnOptions;
  bring(libraryProcess: LibraryProcess, record: RunRecord): void;
  readonly exit: Partial<Record<keyof RunExit, unknown>>;
}

const cancel = {
  options: {},
  bring: (libraryProcess: LibraryProcess) => libraryProcess.cancel({ actor: "test:me" }),
  exit: { reason: "manual-cancel", actor: "test:me" },
};
const anchorKilled = {
  options: {},
  bring: (_: LibraryProcess, { anchor }: RunRecord) => kill(anchor),
  exit: { reason: "lost" },
};

const ends: readonly End[] = [
  { name: "a cancel", user: currentUser, tier: tiers.none, ...cancel },
  { name: "a cancel", user: nobodyUser, tier: tiers.cgroup, ...cancel },
  {
    name: "the overall timeout",
    user: currentUser,
    tier: tiers.none,
    options: { timeoutMs },
    bring: () => {},
    exit: { reason: "overall-timeout", actor: "deadline" },
  },
  {
    name: "a crash of the browser itself",
    user: currentUser,
    tier: tiers.none,
    options: {},
    bring: (_, { root }) => kill(root),
    // Its helpers end when they notice; whether one is too slow for that is the browser's affair.
    exit: { reason: expect.stringMatching(/^(signal|ownership-escape)$/), actor: "", signal: "SIGKILL" },
  },
  { name: "SIGKILL of the anchor", user: currentUser, tier: tiers.none, ...anchorKilled },
  { name: "SIGKILL of the anchor", user: nobodyUser, tier: tiers.cgroup, ...anchorKilled },
];

describe.concurrent("a headless Chromium with its helpers", () => {
  for (const end of ends)
    test(`is gone after ${end.name}: ${end.user.name}, tier ${end.tier.name}`, async ({ skip }) => {
      if (whyNoBrowser !== null && process.env["CI"] === "true") throw new Error(whyNoBrowser);
      const whyNot = whyNoBrowser ?? end.user.whyNot ?? end.tier.whyNot;
      if (whyNot !== null) skip(whyNot);
      await using sandbox = Sandbox.create(end.user, end.tier);
      await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
      await using libraryProcess = await LibraryProcess.open(sandbox);
      const page = join(sandbox.directory, "page.html");
      writeFileSync(page, "<title>a page</title><script>setInterval(() => {}, 10)</script>");
      const profile = join(sandbox.directory, `profile-${tokenProcesses.token}`);
      const { runId, record } = await libraryProcess.spawn(
        {
          io: "pipe",
          argv: [CHROMIUM, ...CHROMIUM_FLAGS, `--user-data-dir=${profile}`, pathToFileURL(page).href],
        },
        { graceMs, onEscape: "fail", ...end.options },
      );
      await libraryProcess.waitForOutput(/DevTools listening on ws:/);
      const root = record.root?.pid ?? 0;
      const helpers = await waitFor("a zygote and a renderer are there", () => {
        const below = descendantsOf(root);
        return ["zygote", "renderer"].every((type) => below.some((one) => is(type, one))) ? below : null;
      });
      expect(helpers.length).toBeGreaterThanOrEqual(3);

      end.bring(libraryProcess, record);
      const ended = (await libraryProcess.receive("ended")).record;
      const left: LiveProcess[] = [
        ...helpers.filter(isAlive),
        ...findByRunMarker(runId),
        ...findByCommandLine(profile),
        ...tokenProcesses.ofRuns(),
      ];
      expect(left, "survivors").toEqual([]);
      expect(ended).toMatchObject({ runId, state: "exited", emptiness: "proven", exit: end.exit });
      expect(ended.tier).toMatch(end.tier.recorded);
      await libraryProcess.close();
      expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
    });
});

function is(type: string, { argv }: LiveProcess): boolean {
  // A browser's children write their command line anew, as one word.
  return argv.some((word) => word.includes(`--type=${type}`));
}

function kill(identity: RunRecord["root"]): void {
  if (identity === null) throw new Error("its identity is not on record");
  signalProcess(identity, "SIGKILL");
}
