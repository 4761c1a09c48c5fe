/** Where a keeper can be stopped (see `children/keeper.mjs`), in the order in which it gets there. */
export const steps = {
  spawn: ["inserted", "asked", "welcomed", "committed", "gone", "heard", "running"],
  terminate: ["stop-asking", "stop-asked", "stop-heard", "leader-heard"],
  finalize: ["end-heard", "end-saving", "end-saved"],
  adopt: ["adopt-saving", "adopt-saved", "adopt-asked", "adopt-heard"],
  steal: ["looking", "stealing", "stolen", "attached", "reaping", "reaped"],
} as const;

export type StepName = (typeof steps)[keyof typeof steps][number];
