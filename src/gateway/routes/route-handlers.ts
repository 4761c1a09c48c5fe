import type { RouteHandlers } from "../../api/handler.js";
import { type AcpHandlerDeps, createAcpHandlers } from "./acp.js";
import { createAgentHandlers } from "./agents.js";
import { createApprovalHandlers } from "./approvals.js";
import { createChannelHandlers } from "./channels.js";
import type { HandlerDeps } from "./deps.js";
import { createExecHandler } from "./exec-as-task.js";
import { createGatewayHandlers } from "./gateway.js";
import { createRunHandlers } from "./runs.js";
import { createServiceHandlers } from "./services.js";
import { createSessionHandlers } from "./sessions.js";
import { createTaskHandlers, type TaskHandlerDeps } from "./tasks.js";

/** One handler for each verb of the contract. */
export function createRouteHandlers(
  deps: HandlerDeps,
  acp: AcpHandlerDeps,
  tasks: TaskHandlerDeps,
): RouteHandlers {
  return {
    ...createGatewayHandlers(deps),
    ...createRunHandlers(deps),
    ...createExecHandler(deps),
    ...createServiceHandlers(deps),
    ...createSessionHandlers(deps),
    ...createAgentHandlers(deps),
    ...createChannelHandlers(deps),
    ...createApprovalHandlers(deps),
    ...createTaskHandlers(tasks),
    ...createAcpHandlers(acp),
  };
}
