import { defaults } from "../defaults.js";

/** Timeouts and bounds of ACP sessions. */
export interface AcpLimits {
  readonly initializeMs: number;
  readonly newSessionMs: number;
  readonly noFramesMs: number;
  readonly cancelMs: number;
  readonly closeMs: number;
  /** Time for an agent to exit by itself after its input or output ended. */
  readonly ownExitMs: number;
  readonly graceMs: number;
  readonly toolGraceMs: number;
  readonly permissionMs: number;
  readonly permissionRequestsPerTurn: number;
}

export const defaultAcpLimits: AcpLimits = {
  initializeMs: defaults.acpInitializeMs,
  newSessionMs: defaults.acpNewSessionMs,
  noFramesMs: defaults.acpNoFramesMs,
  cancelMs: defaults.acpCancelMs,
  closeMs: defaults.acpCloseMs,
  ownExitMs: defaults.acpOwnExitMs,
  graceMs: defaults.graceMs,
  toolGraceMs: defaults.acpToolGraceMs,
  permissionMs: defaults.approvalMs,
  permissionRequestsPerTurn: defaults.acpPermissionRequests,
};
