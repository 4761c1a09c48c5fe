/**
 * The spawn sequence, and what must be true of a run whose supervisor was killed right after each step:
 * whether the command may have run, and how the record ends when its policy has passed.
 */
export const SPAWN_STEPS = [
  { name: "inserted", after: "the record is inserted, before START", runs: false, reason: "spawn-error" },
  { name: "asked", after: "START, before WELCOME", runs: false, reason: "spawn-error" },
  { name: "welcomed", after: "WELCOME, before its commit", runs: false, reason: "spawn-error" },
  { name: "committed", after: "the commit, before GO", runs: false, reason: "spawn-error" },
  { name: "gone", after: "GO, before STARTED", runs: true, reason: "owner-lost" },
  { name: "heard", after: "STARTED, before anything is made of it", runs: true, reason: "owner-lost" },
  { name: "running", after: "spawn() has returned", runs: true, reason: "owner-lost" },
] as const;

export type SpawnStep = (typeof SPAWN_STEPS)[number]["name"];
