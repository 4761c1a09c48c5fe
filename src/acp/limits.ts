import { defaults } from "../defaults.js";

/** Timeouts and bounds of ACP sessions. */
export const defaultAcpLimits = {
  initializeMs: defaults.acpInitializeMs,
  newSessionMs: defaults.acpNewSessionMs,
  stallMs: defaults.acpStallMs,
  cancelMs: defaults.acpCancelMs,
  closeMs: defaults.acpCloseMs,
  /** Time for an agent to exit by itself after its input or output ended. */
  ownExitMs: defaults.acpOwnExitMs,
  /** Time for the list of an agent's processes that is stored with the end of a turn. */
  auditMs: defaults.acpAuditMs,
  settleMs: defaults.acpSettleMs,
  unusedRunMs: defaults.acpUnusedRunMs,
  graceMs: defaults.graceMs,
  toolGraceMs: defaults.acpToolGraceMs,
  permissionMs: defaults.approvalMs,
  permissionRequestsPerTurn: defaults.acpPermissionRequests,
};

export type AcpLimits = Readonly<Record<keyof typeof defaultAcpLimits, number>>;
