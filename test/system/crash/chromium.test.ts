import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import {
  descendantsOf,
  isAlive,
  findByCommandLine,
  findByRunMarker,
  signalProcess,
  type LiveProcess,
} from "../../support/live-processes.js";
import { tiers, type SandboxTier } from "../../support/sandbox.js";
import { SharedHome } from "../../support/supervisor/shared-home.js";
import type { SupervisorProcess } from "../../support/supervisor/supervisor-process.js";
import { CHROMIUM, CHROMIUM_FLAGS, whyNoBrowser } from "../../support/dashboard/browser.js";
import { waitFor } from "../../support/wait-for.js";

const ORIGIN = "in_victim";
const soak = process.env["HOLDFAST_SOAK"] === "1";

interface Kill {
  readonly name: string;
  readonly tier: SandboxTier;
  strike(sharedHome: SharedHome, supervisorProcess: SupervisorProcess): Promise<void>;
}

const kills: readonly Kill[] = [
  { name: "the supervisor", tier: tiers.none, strike: (_, supervisorProcess) => supervisorProcess.kill() },
  {
    name: "supervisor and anchor",
    tier: tiers.none,
    strike: async (sharedHome, supervisorProcess) => {
      for (const one of sharedHome.anchors(ORIGIN)) signalProcess(one, "SIGKILL");
      await supervisorProcess.kill();
    },
  },
  {
    name: "supervisor, launcher and anchor",
    tier: tiers.cgroup,
    strike: async (sharedHome, supervisorProcess) => {
      await supervisorProcess.suspend();
      await sharedHome.stopAnchors(ORIGIN);
      await supervisorProcess.kill();
    },
  },
];

describe("a headless Chromium with its helpers", () => {
  for (const { name, tier, ...kill } of kills)
    test(`is gone after SIGKILL of ${name} and the next reconciliation`, async ({ skip }) => {
      if (whyNoBrowser !== null && process.env["CI"] === "true") throw new Error(whyNoBrowser);
      const whyNot = whyNoBrowser ?? tier.whyNot;
      if (whyNot !== null) skip(whyNot);
      for (let time = 0; time < (soak ? 5 : 1); time++) {
        await using sharedHome = await SharedHome.open(tier);
        const supervisorProcess = await sharedHome.supervisorProcess(ORIGIN);
        const page = join(sharedHome.sandbox.directory, "page.html");
        writeFileSync(page, "<title>a page</title><script>setInterval(() => {}, 10)</script>");
        const profile = join(sharedHome.sandbox.directory, `profile-${sharedHome.tokenProcesses.token}`);
        const { runId, root } = await supervisorProcess.spawn(
          {
            io: "pipe",
            argv: [CHROMIUM, ...CHROMIUM_FLAGS, `--user-data-dir=${profile}`, pathToFileURL(page).href],
          },
          { graceMs: 300, onOrphan: "terminate" },
        );
        const helpers = await waitFor("a zygote and a renderer are there", () => {
          const below = descendantsOf(root?.pid ?? 0);
          return ["zygote", "renderer"].every((type) => below.some((one) => is(type, one))) ? below : null;
        });
        await kill.strike(sharedHome, supervisorProcess);
        sharedHome.expireLeases();
        const { supervisor } = await sharedHome.gateway();
        await sharedHome.ended(runId);
        const left = [...helpers.filter(isAlive), ...findByRunMarker(runId), ...findByCommandLine(profile)];
        expect(left, "survivors").toEqual([]);
        expect(await supervisor.getRun(runId)).toMatchObject({ state: "exited", emptiness: "proven" });
        expect(sharedHome.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
        await sharedHome.stopAllRuns(supervisor);
      }
    });
});

function is(type: string, { argv }: LiveProcess): boolean {
  // A browser's children write their command line anew, as one word.
  return argv.some((word) => word.includes(`--type=${type}`));
}
