import type { ResponseOf } from "../../../src/api/contract.js";
import type { RunRecord } from "../../../src/model/run.js";
import type { RunEvent } from "../../../src/model/run-event.js";

// The records of the API, by the names that the views use.
export type Run = RunRecord;
export type { RunEvent };
export type Session = ResponseOf<"listSessions">["sessions"][number];
export type Task = ResponseOf<"listTasks">["tasks"][number];
export type Approval = ResponseOf<"listApprovals">["approvals"][number];
export type Permission = ResponseOf<"acpPermissions">["permissions"][number];
export type AgentSession = ResponseOf<"acpList">["sessions"][number];
export type Gateway = ResponseOf<"listGateways">["gateways"][number];
export type GatewayStatus = ResponseOf<"status">;
export type OutputPiece = ResponseOf<"log">;
export type RunProcesses = ResponseOf<"runProcesses">;
export type RunProcess = RunProcesses["processes"][number];
export type StopAnswer = ResponseOf<"kill">;
