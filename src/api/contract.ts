import type { z } from "zod";
import { BadInput } from "../errors.js";
import type { Requester } from "../sessions/requester.js";
import type { ParsedRequest, RouteRequest, RouteResponse } from "./route.js";
import * as acp from "./routes/acp-sessions.js";
import * as acpAgent from "./routes/acp-agent.js";
import * as acpPermissions from "./routes/acp-permissions.js";
import * as agents from "./routes/agents.js";
import * as approvals from "./routes/approvals.js";
import * as channels from "./routes/channels.js";
import * as dashboard from "./routes/dashboard.js";
import * as exec from "./routes/exec.js";
import * as gateway from "./routes/gateway.js";
import * as runControl from "./routes/run-control.js";
import * as runs from "./routes/runs.js";
import * as sessions from "./routes/sessions.js";
import * as tasks from "./routes/tasks.js";

/** All operations of the gateway, by the verb that client, server and command line use. */
export const contract = {
  status: gateway.statusRoute,
  stop: gateway.stopRoute,
  listGateways: gateway.listGatewaysRoute,
  health: gateway.healthRoute,
  doctor: gateway.doctorRoute,
  events: gateway.eventsRoute,
  openDashboard: dashboard.openDashboardRoute,
  closeDashboard: dashboard.closeDashboardRoute,
  viewRuns: runs.viewRunsRoute,
  listRuns: runs.listRunsRoute,
  getRun: runs.getRunRoute,
  runProcesses: runs.runProcessesRoute,
  exec: exec.execRoute,
  poll: runControl.pollRoute,
  log: runControl.logRoute,
  screen: runControl.screenRoute,
  write: runControl.writeRoute,
  sendKeys: runControl.sendKeysRoute,
  paste: runControl.pasteRoute,
  resize: runControl.resizeRoute,
  heartbeat: runControl.heartbeatRoute,
  kill: runControl.killRoute,
  remove: runControl.removeRoute,
  clear: runControl.clearRoute,
  ready: runs.readyRoute,
  adoptRun: runs.adoptRunRoute,
  adoptProcess: runs.adoptProcessRoute,
  openSession: sessions.openSessionRoute,
  listSessions: sessions.listSessionsRoute,
  sessionStatus: sessions.sessionStatusRoute,
  sessionHistory: sessions.sessionHistoryRoute,
  sessionInbox: sessions.sessionInboxRoute,
  acknowledgeInbox: sessions.acknowledgeInboxRoute,
  sendMessage: sessions.sendMessageRoute,
  closeSession: sessions.closeSessionRoute,
  rotateToken: sessions.rotateTokenRoute,
  listAgents: agents.listAgentsRoute,
  checkAgent: agents.checkAgentRoute,
  runAgent: agents.runAgentRoute,
  agentResult: agents.agentResultRoute,
  listChannels: channels.listChannelsRoute,
  testChannel: channels.testChannelRoute,
  listApprovals: approvals.listApprovalsRoute,
  decideApproval: approvals.decideApprovalRoute,
  showApproval: approvals.showApprovalRoute,
  listTasks: tasks.listTasksRoute,
  createTask: tasks.createTaskRoute,
  getTask: tasks.getTaskRoute,
  taskEvents: tasks.taskEventsRoute,
  taskProgress: tasks.taskProgressRoute,
  finishTask: tasks.finishTaskRoute,
  notifyTask: tasks.notifyTaskRoute,
  cancelTask: tasks.cancelTaskRoute,
  retryTask: tasks.retryTaskRoute,
  dismissTask: tasks.dismissTaskRoute,
  auditTasks: tasks.auditTasksRoute,
  maintainTasks: tasks.maintainTasksRoute,
  acpSpawn: acp.acpSpawnRoute,
  acpList: acp.acpListRoute,
  acpShow: acp.acpShowRoute,
  acpPrompt: acp.acpPromptRoute,
  acpCancel: acp.acpCancelRoute,
  acpClose: acp.acpCloseRoute,
  acpSet: acpAgent.acpSetRoute,
  acpLogin: acpAgent.acpLoginRoute,
  acpAgentSessions: acpAgent.acpAgentSessionsRoute,
  acpHistory: acp.acpHistoryRoute,
  acpWatch: acp.acpWatchRoute,
  acpPermissions: acpPermissions.acpPermissionsRoute,
  acpAnswer: acpPermissions.acpAnswerRoute,
  acpQuestion: acpPermissions.acpQuestionRoute,
  acpRules: acpPermissions.acpRulesRoute,
  acpAddRule: acpPermissions.acpAddRuleRoute,
  acpRevokeRule: acpPermissions.acpRevokeRuleRoute,
} as const;

type Contract = typeof contract;
export type Verb = keyof Contract;
export type RequestOf<V extends Verb> = RouteRequest<Contract[V]>;
export type ParsedRequestOf<V extends Verb> = ParsedRequest<Contract[V]>;
export type ResponseOf<V extends Verb> = RouteResponse<Contract[V]>;

/** The reason with which `disconnected` aborts when the gateway, not the caller, closes the connection. */
export const GATEWAY_STOPPING = "the gateway stops";

/** The facts about a request beside its input. */
export interface RequestContext {
  readonly requester: Requester;
  /** Aborts when the connection is closed. */
  readonly disconnected: AbortSignal;
  /** The request comes from another gateway, so it is not forwarded again. */
  readonly fromPeer?: boolean;
  /** Runs `work` when admission control allows the requester more work: after a long wait, and for each page of a stream. */
  readonly enqueue: <Result>(work: () => Promise<Result>) => Promise<Result>;
  /** Counts an open stream of the requester until it is disposed. Throws TooManyStreams. */
  readonly countStream: () => Disposable;
}

export type RouteHandlers = {
  readonly [V in Verb]: (input: ParsedRequestOf<V>, context: RequestContext) => Promise<ResponseOf<V>>;
};

export function validateInput<Shape extends z.ZodType>(
  shape: Shape,
  value: unknown,
  where: string,
): z.output<Shape> {
  const parsed = shape.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const field = issue?.path.join(".") ?? "";
  throw new BadInput(
    field === "" ? where : field,
    `${where} is invalid${field === "" ? "" : `: ${field}`}: ${issue?.message ?? "it does not match the schema"}; nothing was done`,
  );
}
