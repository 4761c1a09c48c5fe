import { defaults } from "../defaults.js";

/** How long everything may take, and how much of it there may be. */
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
  /** Of one turn. */
  readonly questions: number;
}

export const defaultAcpLimits: AcpLimits = {
  initializeMs: defaults.acpInitializeMs,
  newSessionMs: defaults.acpNewSessionMs,
  noFramesMs: defaults.acpNoFramesMs,
  cancelMs: defaults.acpCancelMs,
  closeMs: defaults.acpCloseMs,
  leaveMs: defaults.acpLeaveMs,
  graceMs: defaults.graceMs,
  toolGraceMs: defaults.acpToolGraceMs,
  permissionMs: defaults.approvalMs,
  questions: defaults.acpQuestions,
};
