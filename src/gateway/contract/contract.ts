import {
  acpAnswer,
  acpQuestion,
  acpCancel,
  acpClose,
  acpHistory,
  acpList,
  acpPermissions,
  acpPrompt,
  acpShow,
  acpSpawn,
  acpWatch,
} from "./acp.js";
import { agentResult, checkAgent, listAgents, runAgent } from "./agents.js";
import { listChannels, testChannel } from "./channels.js";
import { exec } from "./exec.js";
import { events, status, stop } from "./gateway.js";
import { listGateways } from "./gateways.js";
import {
  clear,
  heartbeat,
  kill,
  log,
  paste,
  poll,
  remove,
  resize,
  screen,
  sendKeys,
  write,
} from "./process.js";
import type { Asked, Answered, Heard } from "./route.js";
import { getRun, listRuns, runProcesses } from "./runs.js";
import { adoptProcess, adoptRun, ready } from "./services.js";
import {
  acknowledgeInbox,
  closeSession,
  decideApproval,
  showApproval,
  listApprovals,
  listSessions,
  openSession,
  sendMessage,
  sessionHistory,
  sessionInbox,
  sessionStatus,
} from "./sessions.js";
import {
  auditTasks,
  cancelTask,
  createTask,
  dismissTask,
  finishTask,
  getTask,
  listTasks,
  maintainTasks,
  notifyTask,
  retryTask,
  taskEvents,
  taskProgress,
} from "./tasks.js";

/** Everything that can be asked of a gateway, by the verb that the client, the server and the command line all use. */
export const contract = {
  status,
  stop,
  listGateways,
  events,
  listRuns,
  getRun,
  runProcesses,
  exec,
  poll,
  log,
  screen,
  write,
  sendKeys,
  paste,
  resize,
  heartbeat,
  kill,
  remove,
  clear,
  ready,
  adoptRun,
  adoptProcess,
  openSession,
  listSessions,
  sessionStatus,
  sessionHistory,
  sessionInbox,
  acknowledgeInbox,
  sendMessage,
  closeSession,
  listAgents,
  checkAgent,
  runAgent,
  agentResult,
  listChannels,
  testChannel,
  listApprovals,
  decideApproval,
  showApproval,
  listTasks,
  createTask,
  getTask,
  taskEvents,
  taskProgress,
  finishTask,
  notifyTask,
  cancelTask,
  retryTask,
  dismissTask,
  auditTasks,
  maintainTasks,
  acpSpawn,
  acpList,
  acpShow,
  acpPrompt,
  acpCancel,
  acpClose,
  acpHistory,
  acpWatch,
  acpPermissions,
  acpAnswer,
  acpQuestion,
} as const;

export type Contract = typeof contract;
export type Verb = keyof Contract;
export type AskedOf<V extends Verb> = Asked<Contract[V]>;
export type HeardOf<V extends Verb> = Heard<Contract[V]>;
export type AnswerOf<V extends Verb> = Answered<Contract[V]>;
