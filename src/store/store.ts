import type { AcpReads, AcpStore } from "./acp/contract.js";
import type { GatewayReads, GatewayStore, RemoteStopReads, RemoteStopStore } from "./gateways/contract.js";
import type { MessageReads, MessageStore } from "./messages/contract.js";
import type { RunReads, RunStore, ScopedEventReads, StoreBase } from "./runs/contract.js";
import type { SessionReads, SessionStore } from "./sessions/contract.js";
import type { TaskReads, TaskStore } from "./tasks/contract.js";

/** The part of a store that changes nothing. */
export interface ReadStore
  extends
    StoreBase,
    RunReads,
    ScopedEventReads,
    SessionReads,
    MessageReads,
    AcpReads,
    TaskReads,
    GatewayReads,
    RemoteStopReads {}

/** All durable state. One implementation per database, one contract suite for all of them. */
export interface Store
  extends
    ReadStore,
    RunStore,
    SessionStore,
    MessageStore,
    AcpStore,
    TaskStore,
    GatewayStore,
    RemoteStopStore {
  /** When the generation changed, in wall-clock milliseconds; -Infinity: never since the store was opened. */
  readonly generationChangedAt: number;
}

/** The result of a check of the store. */
export interface StoreCheck {
  readonly schema: number;
  /** Damage that SQLite found; null: none. */
  readonly damage: string | null;
  readonly runs: { readonly open: number; readonly ended: number };
  readonly events: number;
  /** The most events of one state directory. Each directory deletes only its own. */
  readonly mostEvents: number;
  readonly logBytes: number;
}
