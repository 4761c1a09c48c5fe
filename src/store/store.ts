import type { AcpStore } from "./acp/store.js";
import type { GatewayStore } from "./gateways/store.js";
import type { MessageStore } from "./messages/store.js";
import type { RemoteStopStore } from "./remote-stops.js";
import type { RunStore, ScopedEventReads } from "./runs/store.js";
import type { SessionStore } from "./sessions/store.js";
import type { TaskStore } from "./tasks/store.js";

/** All durable state. One implementation per database, one contract suite for all of them. */
export type Store = RunStore &
  ScopedEventReads &
  SessionStore &
  MessageStore &
  AcpStore &
  TaskStore &
  GatewayStore &
  RemoteStopStore;

/** The part of a store that changes nothing. */
export type ReadStore = Pick<
  Store,
  | "getRun"
  | "findRuns"
  | "listRuns"
  | "listEvents"
  | "eventsReach"
  | "getSession"
  | "getSessionByKey"
  | "listSessions"
  | "getApproval"
  | "listApprovals"
  | "listGateways"
  | "listHosts"
  | "countOpenRunsByOwner"
  | "shared"
  | "listMessages"
  | "countMessages"
  | "getAcpSession"
  | "getAcpTurn"
  | "listAcpSessions"
  | "listAcpTurns"
  | "listAcpUpdates"
  | "listAcpPermissionRequests"
  | "getTask"
  | "getTaskByKey"
  | "findTasks"
  | "listTasks"
  | "listTaskEvents"
  | "listOutbox"
  | "now"
  | typeof Symbol.asyncDispose
>;

/** What a check of the store found. */
export interface StoreCheck {
  readonly schema: number;
  /** What SQLite found wrong; null: nothing. */
  readonly damage: string | null;
  readonly runs: { readonly open: number; readonly ended: number };
  readonly events: number;
  /** The most of one state directory, each of which forgets its own. */
  readonly mostEvents: number;
  readonly logBytes: number;
}
