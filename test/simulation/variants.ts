import type { SimulationVariant } from "./world.js";

const ONE: SimulationVariant = {
  name: "one supervisor",
  cgroups: true,
  uniqueIds: true,
  supervisors: 1,
  machines: 1,
  containers: 1,
  reboots: true,
};

export const variants: readonly SimulationVariant[] = [
  ONE,
  { ...ONE, name: "one supervisor, no cgroup, no unique ids", cgroups: false, uniqueIds: false },
  { ...ONE, name: "two supervisors", supervisors: 2 },
  { ...ONE, name: "three supervisors, no cgroup", supervisors: 3, cgroups: false },
  { ...ONE, name: "two supervisors, no unique ids", supervisors: 2, uniqueIds: false },
  { ...ONE, name: "two containers on one state directory", containers: 2, supervisors: 1, cgroups: false },
  { ...ONE, name: "two machines on one store", machines: 2, supervisors: 1 },
  { ...ONE, name: "two machines on one store, two supervisors each", machines: 2, supervisors: 2 },
];

/** A seed says its variant too: one number is enough to replay a schedule. */
const SEEDS_EACH = 1_000_000;

export function firstSeed(variant: SimulationVariant): number {
  return variants.indexOf(variant) * SEEDS_EACH + 1;
}

export function variantOf(seed: number): SimulationVariant {
  const variant = variants[Math.floor(seed / SEEDS_EACH)];
  if (variant === undefined) throw new Error(`no variant has a seed ${seed}`);
  return variant;
}
