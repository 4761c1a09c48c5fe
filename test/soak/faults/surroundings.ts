import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { uptime } from "node:os";
import type { World } from "../world/world.js";
import type { Fault } from "./fault.js";

const YEAR_MS = 365 * 24 * 3_600_000;

const timeNamespaces =
  spawnSync("unshare", ["--time", "--monotonic=1000", "--boottime=1000", "true"]).status === 0;

/** A limit of a live process, which it gets back afterwards. */
async function limited(
  pid: number | null,
  option: "nofile" | "as",
  value: number,
  during: () => Promise<void>,
): Promise<boolean> {
  if (pid === null) return false;
  // The soft limit only: raising the hard one again needs a privilege.
  if (spawnSync("prlimit", [`--pid=${pid}`, `--${option}=${value}:`]).status !== 0) return false;
  await during();
  spawnSync("prlimit", [`--pid=${pid}`, option === "nofile" ? "--nofile=1024:" : "--as=unlimited:"]);
  return true;
}

const openDescriptors = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length;

async function restartedWith(
  world: World,
  surroundings: Parameters<World["startGateway"]>[0],
  during: () => Promise<void>,
): Promise<boolean> {
  await world.killGateway();
  await world.startGateway(surroundings);
  await during();
  await world.killGateway();
  await world.startGateway();
  return true;
}

export const surroundingFaults: readonly Fault[] = [
  ...(["ahead", "behind"] as const).map((where) => ({
    name: `wall clock a year ${where}`,
    weight: 0.5,
    inject: ({ world, during }: Parameters<Fault["inject"]>[0]) => {
      const shift = where === "ahead" ? YEAR_MS : -YEAR_MS;
      const code = `const now = Date.now; Date.now = () => now() + ${shift};`;
      const env = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(code)}` };
      return restartedWith(world, { env }, () => during(200));
    },
  })),
  ...(["ahead", "behind"] as const).map((where) => ({
    name: `time namespace ${where}`,
    weight: 0.5,
    // SQLite is for one time namespace per boot; the other gateway is refused nothing, and must take nothing.
    isPossible: () => timeNamespaces,
    inject: ({ world, during }: Parameters<Fault["inject"]>[0]) => {
      const seconds = where === "ahead" ? 100_000 : -Math.floor(uptime() / 2);
      const around = ["unshare", "--time", `--monotonic=${seconds}`, `--boottime=${seconds}`, "--"];
      return restartedWith(world, { around }, () => during(200));
    },
  })),
  {
    name: "descriptor limit of gateway",
    weight: 3,
    inject({ world, random, during }) {
      const pid = world.gateway?.pid ?? null;
      return limited(pid, "nofile", (pid === null ? 0 : openDescriptors(pid)) + random.below(3), () =>
        during(300),
      );
    },
  },
  {
    name: "descriptor limit of launcher",
    weight: 3,
    inject({ world, random, during }) {
      const pid = world.launcher()?.pid ?? null;
      return limited(pid, "nofile", (pid === null ? 0 : openDescriptors(pid)) + random.below(3), () =>
        during(300),
      );
    },
  },
  {
    name: "descriptor limit of anchor",
    weight: 2,
    suits: (work) => work.anchor() !== null,
    async inject({ victim, random, during }) {
      const pid = victim?.anchor()?.pid ?? null;
      return limited(pid, "nofile", (pid === null ? 0 : openDescriptors(pid)) + random.below(3), () =>
        during(300),
      );
    },
  },
  {
    name: "memory limit of launcher",
    weight: 3,
    inject: ({ world, during }) => limited(world.launcher()?.pid ?? null, "as", 1, () => during(300)),
  },
  {
    name: "memory limit of gateway",
    weight: 2,
    async inject({ world, during }) {
      // Node ends when it gets no memory, also some time later.
      world.gatewayMayEnd = true;
      const made = await limited(world.gateway?.pid ?? null, "as", 1, () => during(300));
      await world.ensureGateway();
      return made;
    },
  },
];
