import { defaults } from "../defaults.js";

/** How long everything may take. */
export interface AcpLimits {
  readonly initializeMs: number;
  readonly newSessionMs: number;
  readonly noFramesMs: number;
  readonly cancelMs: number;
  readonly closeMs: number;
  /** After the end of its input, before it is terminated. */
  readonly leaveMs: number;
  readonly graceMs: number;
  readonly toolGraceMs: number;
  readonly permissionMs: number;
}

export const acpLimits: AcpLimits = {
  initializeMs: defaults.acpInitializeMs,
  newSessionMs: defaults.acpNewSessionMs,
  noFramesMs: defaults.acpNoFramesMs,
  cancelMs: defaults.acpCancelMs,
  closeMs: defaults.acpCloseMs,
  leaveMs: defaults.acpLeaveMs,
  graceMs: defaults.graceMs,
  toolGraceMs: defaults.acpToolGraceMs,
  permissionMs: defaults.approvalMs,
};
