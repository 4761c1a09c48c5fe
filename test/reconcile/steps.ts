/** Where a keeper can be stopped (see `children/keeper.mjs`), in the order in which it gets there. */
export const SUPERVISOR_STEPS = {
  spawn: ["inserted", "asked", "welcomed", "committed", "gone", "heard", "running"],
  terminate: ["stop-asking", "stop-asked", "stop-heard", "leader-heard"],
  finalize: ["end-heard", "end-saving", "end-saved"],
  adopt: ["adopt-saving", "adopt-saved", "adopt-asked", "adopt-heard"],
  steal: ["looking", "stealing", "stolen", "attached", "reaping", "reaped"],
} as const;

export type SupervisorStep = (typeof SUPERVISOR_STEPS)[keyof typeof SUPERVISOR_STEPS][number];
