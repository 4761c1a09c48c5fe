/** The public library: own every process a command starts, until each is provably gone. */
export { openSupervisor } from "./supervisor/open.js";
export type {
  AdoptedProcess,
  CommandInput,
  OutputChunk,
  Problem,
  Readiness,
  ReconcileScope,
  Reconciliation,
  Retained,
  Retention,
  Run,
  RunEnding,
  SpawnOptions,
  Supervisor,
  SupervisorOptions,
} from "./supervisor/api.js";
export type { Action, Decided, Decision, Row } from "./supervisor/reconcile-decision.js";
export type {
  AdoptOptions,
  AskedLimits,
  CancelOptions,
  FollowOptions,
  ReadOptions,
  ReadyOptions,
} from "./supervisor/check-options.js";
export type { LiveProcesses } from "./anchor/inspect/processes.js";
export type {
  FirstStop,
  MemberSignal,
  SpoolPolicy,
  SpoolSpec,
  StreamName,
  TerminalSize,
} from "./anchor/host-interface.js";
export type { Survivor } from "./model/process.js";
export type { RunEvent, RunEventType } from "./model/run-event.js";
export { END_REASONS } from "./model/enums.js";
export type {
  Emptiness,
  EndReason,
  ImportedFacts,
  KillMode,
  LimitHit,
  OnEscape,
  OnOrphan,
  RunBoundary,
  RunDeadlines,
  RunExit,
  RunIo,
  RunKind,
  RunLimits,
  RunPolicy,
  RunRecord,
  RunStateName,
  RunUsage,
  ServiceFacts,
  UsageSource,
} from "./model/run.js";
export type { Residue } from "./model/process.js";
export type { ProcessIdentity } from "./model/process.js";
export type { EventFilter, RunFilter } from "./store/runs/contract.js";
export * from "./errors.js";
export { createClient, GatewayError, type ClientOptions, type GatewayClient } from "./api/client.js";
export { defaults, watchdogProfiles } from "./defaults.js";
export { noOutputLimit, type WatchdogProfile } from "./agents/one-shot-command.js";
