import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { descendants, isAlive, living, marked, signal, until, type Living } from "../tree/living.js";
import { tiers, type Tier } from "../tree/seat.js";
import { House } from "./house.js";
import type { Keeper } from "./keeper.js";

const chromium = "/usr/bin/chromium";
const missing = existsSync(chromium) ? null : `${chromium} is not installed (Debian's package chromium)`;
const flags = [
  ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
  "--remote-debugging-port=0",
];
const ORIGIN = "in_victim";
const soak = process.env["HOLDFAST_SOAK"] === "1";

interface Kill {
  readonly name: string;
  readonly tier: Tier;
  strike(house: House, keeper: Keeper): Promise<void>;
}

const kills: readonly Kill[] = [
  { name: "the supervisor", tier: tiers.none, strike: (_, keeper) => keeper.kill() },
  {
    name: "supervisor and anchor",
    tier: tiers.none,
    strike: async (house, keeper) => {
      for (const one of house.anchors(ORIGIN)) signal(one, "SIGKILL");
      await keeper.kill();
    },
  },
  {
    name: "supervisor, launcher and anchor",
    tier: tiers.cgroup,
    strike: async (house, keeper) => {
      await keeper.stop();
      await house.silence(ORIGIN);
      await keeper.kill();
    },
  },
];

describe("a headless Chromium with its helpers", () => {
  for (const { name, tier, ...kill } of kills)
    test(`is gone after SIGKILL of ${name} and the next reconciliation`, async ({ skip }) => {
      if (missing !== null && process.env["CI"] === "true") throw new Error(missing);
      const whyNot = missing ?? tier.whyNot;
      if (whyNot !== null) skip(whyNot);
      for (let time = 0; time < (soak ? 5 : 1); time++) {
        await using house = await House.open(tier);
        const keeper = await house.keeper(ORIGIN);
        const page = join(house.seat.directory, "page.html");
        writeFileSync(page, "<title>a page</title><script>setInterval(() => {}, 10)</script>");
        const profile = join(house.seat.directory, `profile-${house.crowd.token}`);
        const { runId, root } = await keeper.spawn(
          { io: "pipe", argv: [chromium, ...flags, `--user-data-dir=${profile}`, pathToFileURL(page).href] },
          { graceMs: 300, onOrphan: "terminate" },
        );
        const helpers = await until("a zygote and a renderer are there", () => {
          const below = descendants(root?.pid ?? 0);
          return ["zygote", "renderer"].every((type) => below.some((one) => is(type, one))) ? below : null;
        });
        await kill.strike(house, keeper);
        house.expireLeases();
        const { supervisor } = await house.gateway();
        await house.ended(runId);
        const left = [...helpers.filter(isAlive), ...marked(runId), ...living(profile)];
        expect(left, "survivors").toEqual([]);
        expect(await supervisor.getRun(runId)).toMatchObject({ state: "exited", emptiness: "proven" });
        expect(house.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
        await house.tidy(supervisor);
      }
    });
});

function is(type: string, { argv }: Living): boolean {
  // A browser's children write their command line anew, as one word.
  return argv.some((word) => word.includes(`--type=${type}`));
}
