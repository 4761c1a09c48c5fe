import type { FirstStop, LeaderStatus, SpawnFailure } from "../../anchor/host-interface.js";
import type { Survivor, ProcessIdentity } from "../../model/process.js";
import type { RunChange } from "../../store/runs/contract.js";

/** How a run ended, as it goes into the record. */
export type RunOutcome = Omit<Extract<RunChange, { readonly to: "exited" }>, "to" | "at" | "lastOutputAt">;

/** The cause that began the end of the run. The first cause counts; the recorded reason is the anchor's. */
type ExitCause =
  | { readonly by: "stop"; readonly stop: FirstStop }
  | { readonly by: "leader"; readonly status: LeaderStatus }
  | { readonly by: "failure"; readonly failure: SpawnFailure };

/**
 *     starting ──started──▶ running ──stop, leader──▶ exiting
 *      │    └── stop, failed ────────────────────────▶ │
 *      └────────────── exited, lost ──────────────────┴──▶ exited
 *
 * A run is `exited` when its whole tree is gone, or (`lost`) when that cannot be found out; not when its leader ended.
 * A stop that arrives before the root is known is kept as `pendingStop`.
 */
export type RunState =
  | { readonly name: "starting"; readonly root: null; readonly pendingStop: FirstStop | null }
  | { readonly name: "starting"; readonly root: ProcessIdentity; readonly pendingStop: null }
  | { readonly name: "running"; readonly root: ProcessIdentity }
  | {
      readonly name: "exiting";
      readonly root: ProcessIdentity;
      readonly cause: ExitCause;
      readonly leader: LeaderStatus | null;
      readonly survivors: readonly Survivor[];
    }
  | { readonly name: "exited"; readonly root: ProcessIdentity | null; readonly outcome: RunOutcome };

export type RunStateEvent =
  /** The root exists and waits at the gate. */
  | { readonly type: "gated"; readonly root: ProcessIdentity }
  | { readonly type: "started" }
  | { readonly type: "failed"; readonly failure: SpawnFailure }
  | { readonly type: "stop"; readonly stop: FirstStop }
  | { readonly type: "leader"; readonly status: LeaderStatus }
  | { readonly type: "survivors"; readonly survivors: readonly Survivor[] }
  | { readonly type: "exited"; readonly outcome: RunOutcome }
  | { readonly type: "lost"; readonly outcome: RunOutcome };

type StateNamed<Name> = Extract<RunState, { readonly name: Name }>;
type EventOf<Type> = Extract<RunStateEvent, { readonly type: Type }>;
type TransitionTable = {
  readonly [Name in RunState["name"]]: {
    readonly [Type in RunStateEvent["type"]]: (state: StateNamed<Name>, event: EventOf<Type>) => RunState;
  };
};

/** A transition that changes nothing, with its reason. */
function ignored(_why: string): (state: RunState) => RunState {
  return (state) => state;
}

function toExited(state: RunState, event: { readonly outcome: RunOutcome }): RunState {
  return { name: "exited", root: state.root, outcome: event.outcome };
}

function toExiting(root: ProcessIdentity, cause: ExitCause, leader: LeaderStatus | null = null): RunState {
  return { name: "exiting", root, cause, leader, survivors: [] };
}

const TRANSITIONS: TransitionTable = {
  starting: {
    gated: (state, { root }) =>
      // A stop can arrive before the root is known.
      state.pendingStop === null
        ? { name: "starting", root: state.root ?? root, pendingStop: null }
        : toExiting(root, { by: "stop", stop: state.pendingStop }),
    started: (state) => (state.root === null ? state : { name: "running", root: state.root }),
    failed: (state, { failure }) =>
      state.root === null ? state : toExiting(state.root, { by: "failure", failure }),
    stop: (state, { stop }) =>
      state.root === null
        ? { name: "starting", root: null, pendingStop: state.pendingStop ?? stop }
        : toExiting(state.root, { by: "stop", stop }),
    leader: (state, { status }) =>
      // Another program can kill the child at the gate.
      state.root === null ? state : toExiting(state.root, { by: "leader", status }, status),
    survivors: ignored("nothing has been killed yet: a stop or the leader's end is reported first"),
    exited: toExited,
    lost: toExited,
  },
  running: {
    gated: ignored("repeated after a reattach: the root never changes"),
    started: ignored("repeated after a reattach"),
    failed: ignored("an executed command cannot fail to start"),
    stop: (state, { stop }) => toExiting(state.root, { by: "stop", stop }),
    leader: (state, { status }) => toExiting(state.root, { by: "leader", status }, status),
    survivors: ignored("nothing has been killed yet: a stop or the leader's end is reported first"),
    exited: toExited,
    lost: toExited,
  },
  exiting: {
    gated: ignored("the root is known"),
    started: ignored("the stop crossed GO on the wire: the run is ending"),
    failed: ignored("the stop crossed a failing exec: the exit contains both"),
    stop: ignored("the first reason counts"),
    leader: (state, { status }) => ({ ...state, leader: state.leader ?? status }),
    survivors: (state, { survivors }) => ({ ...state, survivors }),
    exited: toExited,
    lost: toExited,
  },
  exited: {
    gated: ignored("nothing changes after the end"),
    started: ignored("nothing changes after the end"),
    failed: ignored("nothing changes after the end"),
    stop: ignored("nothing is left to stop"),
    leader: ignored("nothing changes after the end"),
    survivors: ignored("nothing changes after the end"),
    exited: ignored("the first end counts: connection and exit file report the same one"),
    lost: ignored("an ended run cannot be lost"),
  },
};

export function step(state: RunState, event: RunStateEvent): RunState {
  const cell = TRANSITIONS[state.name][event.type] as (state: RunState, event: RunStateEvent) => RunState;
  return cell(state, event);
}

export const initialState: RunState = { name: "starting", root: null, pendingStop: null };
