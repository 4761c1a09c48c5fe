import type { z } from "zod";
import { BadInput } from "../errors.js";
import type { Requester } from "../sessions/requester.js";
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
import { decideApprovalRoute, execRoute, listApprovalsRoute, showApprovalRoute } from "./routes/exec.js";
import {
  eventsRoute,
  listChannelsRoute,
  listGatewaysRoute,
  statusRoute,
  stopRoute,
  testChannelRoute,
} from "./routes/gateway.js";
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
import {
  adoptProcessRoute,
  adoptRunRoute,
  getRunRoute,
  listRunsRoute,
  readyRoute,
  runProcessesRoute,
} from "./routes/runs.js";
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

/** The reason with which `disconnected` aborts when the gateway, not the caller, closes the connection. */
export const GATEWAY_STOPPING = "the gateway stops";

/** What a handler knows about a request beside its input. */
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

/** Drops properties with the value undefined, as exactOptionalPropertyTypes requires. */
export function omitUndefined<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}
