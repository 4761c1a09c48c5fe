import type { ParsedRequest, RouteRequest, RouteResponse } from "./route.js";
import {
  acpAnswerRoute,
  acpCancelRoute,
  acpCloseRoute,
  acpHistoryRoute,
  acpListRoute,
  acpPermissionsRoute,
  acpPromptRoute,
  acpQuestionRoute,
  acpShowRoute,
  acpSpawnRoute,
  acpWatchRoute,
} from "./routes/acp.js";
import { agentResultRoute, checkAgentRoute, listAgentsRoute, runAgentRoute } from "./routes/agents.js";
import { listChannelsRoute, testChannelRoute } from "./routes/channels.js";
import { execRoute } from "./routes/exec.js";
import { eventsRoute, listGatewaysRoute, statusRoute, stopRoute } from "./routes/gateway.js";
import {
  clearRoute,
  heartbeatRoute,
  killRoute,
  logRoute,
  pasteRoute,
  pollRoute,
  removeRoute,
  resizeRoute,
  screenRoute,
  sendKeysRoute,
  writeRoute,
} from "./routes/run-control.js";
import { getRunRoute, listRunsRoute, runProcessesRoute } from "./routes/runs.js";
import { adoptProcessRoute, adoptRunRoute, readyRoute } from "./routes/services.js";
import {
  acknowledgeInboxRoute,
  closeSessionRoute,
  listSessionsRoute,
  openSessionRoute,
  rotateTokenRoute,
  sendMessageRoute,
  sessionHistoryRoute,
  sessionInboxRoute,
  sessionStatusRoute,
} from "./routes/sessions.js";
import { decideApprovalRoute, listApprovalsRoute, showApprovalRoute } from "./routes/approvals.js";
import {
  auditTasksRoute,
  cancelTaskRoute,
  createTaskRoute,
  dismissTaskRoute,
  finishTaskRoute,
  getTaskRoute,
  listTasksRoute,
  maintainTasksRoute,
  notifyTaskRoute,
  retryTaskRoute,
  taskEventsRoute,
  taskProgressRoute,
} from "./routes/tasks.js";

/** All operations of the gateway, by the verb that client, server and command line use. */
export const contract = {
  status: statusRoute,
  stop: stopRoute,
  listGateways: listGatewaysRoute,
  events: eventsRoute,
  listRuns: listRunsRoute,
  getRun: getRunRoute,
  runProcesses: runProcessesRoute,
  exec: execRoute,
  poll: pollRoute,
  log: logRoute,
  screen: screenRoute,
  write: writeRoute,
  sendKeys: sendKeysRoute,
  paste: pasteRoute,
  resize: resizeRoute,
  heartbeat: heartbeatRoute,
  kill: killRoute,
  remove: removeRoute,
  clear: clearRoute,
  ready: readyRoute,
  adoptRun: adoptRunRoute,
  adoptProcess: adoptProcessRoute,
  openSession: openSessionRoute,
  listSessions: listSessionsRoute,
  sessionStatus: sessionStatusRoute,
  sessionHistory: sessionHistoryRoute,
  sessionInbox: sessionInboxRoute,
  acknowledgeInbox: acknowledgeInboxRoute,
  sendMessage: sendMessageRoute,
  closeSession: closeSessionRoute,
  rotateToken: rotateTokenRoute,
  listAgents: listAgentsRoute,
  checkAgent: checkAgentRoute,
  runAgent: runAgentRoute,
  agentResult: agentResultRoute,
  listChannels: listChannelsRoute,
  testChannel: testChannelRoute,
  listApprovals: listApprovalsRoute,
  decideApproval: decideApprovalRoute,
  showApproval: showApprovalRoute,
  listTasks: listTasksRoute,
  createTask: createTaskRoute,
  getTask: getTaskRoute,
  taskEvents: taskEventsRoute,
  taskProgress: taskProgressRoute,
  finishTask: finishTaskRoute,
  notifyTask: notifyTaskRoute,
  cancelTask: cancelTaskRoute,
  retryTask: retryTaskRoute,
  dismissTask: dismissTaskRoute,
  auditTasks: auditTasksRoute,
  maintainTasks: maintainTasksRoute,
  acpSpawn: acpSpawnRoute,
  acpList: acpListRoute,
  acpShow: acpShowRoute,
  acpPrompt: acpPromptRoute,
  acpCancel: acpCancelRoute,
  acpClose: acpCloseRoute,
  acpHistory: acpHistoryRoute,
  acpWatch: acpWatchRoute,
  acpPermissions: acpPermissionsRoute,
  acpAnswer: acpAnswerRoute,
  acpQuestion: acpQuestionRoute,
} as const;

export type Contract = typeof contract;
export type Verb = keyof Contract;
export type RequestOf<V extends Verb> = RouteRequest<Contract[V]>;
export type ParsedRequestOf<V extends Verb> = ParsedRequest<Contract[V]>;
export type ResponseOf<V extends Verb> = RouteResponse<Contract[V]>;
