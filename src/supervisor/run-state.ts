import type { FirstStop, LeaderStatus, SpawnFailure, Survivor } from "../anchor/host.js";
import type { ProcessIdentity } from "../store/run-record.js";
import type { RunChange } from "../store/store.js";

/** How a run ended, as it goes into the record. */
export type Ending = Omit<Extract<RunChange, { readonly to: "exited" }>, "to" | "at" | "lastOutputAt">;

/** What set the end in motion. The first wins; the record's reason is the anchor's. */
export type ExitCause =
  | { readonly by: "stop"; readonly stop: FirstStop }
  | { readonly by: "leader"; readonly status: LeaderStatus }
  | { readonly by: "failure"; readonly failure: SpawnFailure };

/**
 *     starting ──started──▶ running ──stop, leader──▶ exiting
 *      │    └── stop, failed ────────────────────────▶ │
 *      └────────────── exited, lost ──────────────────┴──▶ exited
 *
 * A run is `exited` only when its whole tree is gone (or, `lost`, when nobody can say), not when its leader is.
 * While there is no root, a stop is owed to it.
 */
export type RunState =
  | { readonly name: "starting"; readonly root: null; readonly owed: FirstStop | null }
  | { readonly name: "starting"; readonly root: ProcessIdentity; readonly owed: null }
  | { readonly name: "running"; readonly root: ProcessIdentity }
  | {
      readonly name: "exiting";
      readonly root: ProcessIdentity;
      readonly cause: ExitCause;
      readonly leader: LeaderStatus | null;
      readonly survivors: readonly Survivor[];
    }
  | { readonly name: "exited"; readonly root: ProcessIdentity | null; readonly ending: Ending };

export type LifeEvent =
  /** The root exists, behind the gate. */
  | { readonly type: "gated"; readonly root: ProcessIdentity }
  | { readonly type: "started" }
  | { readonly type: "failed"; readonly failure: SpawnFailure }
  | { readonly type: "stop"; readonly stop: FirstStop }
  | { readonly type: "leader"; readonly status: LeaderStatus }
  | { readonly type: "survivors"; readonly survivors: readonly Survivor[] }
  | { readonly type: "exited"; readonly ending: Ending }
  | { readonly type: "lost"; readonly ending: Ending };

type StateNamed<Name> = Extract<RunState, { readonly name: Name }>;
type EventOf<Type> = Extract<LifeEvent, { readonly type: Type }>;
type Table = {
  readonly [Name in RunState["name"]]: {
    readonly [Type in LifeEvent["type"]]: (state: StateNamed<Name>, event: EventOf<Type>) => RunState;
  };
};

/** A cell in which nothing happens, and why. */
function ignored(_why: string): (state: RunState) => RunState {
  return (state) => state;
}

function end(state: RunState, event: { readonly ending: Ending }): RunState {
  return { name: "exited", root: state.root, ending: event.ending };
}

function exiting(root: ProcessIdentity, cause: ExitCause, leader: LeaderStatus | null = null): RunState {
  return { name: "exiting", root, cause, leader, survivors: [] };
}

const table: Table = {
  starting: {
    gated: (state, { root }) =>
      // A cancel can arrive before the pid does; it is owed, not lost.
      state.owed === null
        ? { name: "starting", root: state.root ?? root, owed: null }
        : exiting(root, { by: "stop", stop: state.owed }),
    started: (state) => (state.root === null ? state : { name: "running", root: state.root }),
    failed: (state, { failure }) =>
      state.root === null ? state : exiting(state.root, { by: "failure", failure }),
    stop: (state, { stop }) =>
      state.root === null
        ? { name: "starting", root: null, owed: state.owed ?? stop }
        : exiting(state.root, { by: "stop", stop }),
    leader: (state, { status }) =>
      // The child behind the gate can be killed by a stranger.
      state.root === null ? state : exiting(state.root, { by: "leader", status }, status),
    survivors: ignored("nothing has been killed yet: a stop or the leader's end is reported first"),
    exited: end,
    lost: end,
  },
  running: {
    gated: ignored("a repeat after re-attaching: the root never changes"),
    started: ignored("a repeat after re-attaching"),
    failed: ignored("what has been exec'd can no longer fail to start"),
    stop: (state, { stop }) => exiting(state.root, { by: "stop", stop }),
    leader: (state, { status }) => exiting(state.root, { by: "leader", status }, status),
    survivors: ignored("nothing has been killed yet: a stop or the leader's end is reported first"),
    exited: end,
    lost: end,
  },
  exiting: {
    gated: ignored("the root is known"),
    started: ignored("the stop crossed GO on the wire: the run is on its way out all the same"),
    failed: ignored("the stop crossed a failing exec: the exit says both"),
    // The first reason wins: a timeout that fires during a cancel must not rewrite history.
    stop: ignored("the first reason wins"),
    leader: (state, { status }) => ({ ...state, leader: state.leader ?? status }),
    survivors: (state, { survivors }) => ({ ...state, survivors }),
    exited: end,
    lost: end,
  },
  exited: {
    gated: ignored("nothing changes after the end"),
    started: ignored("nothing changes after the end"),
    failed: ignored("nothing changes after the end"),
    stop: ignored("nothing is left to stop"),
    leader: ignored("nothing changes after the end"),
    survivors: ignored("nothing changes after the end"),
    exited: ignored("the first end wins: connection and exit file tell the same one"),
    lost: ignored("what ended cannot get lost"),
  },
};

export function step(state: RunState, event: LifeEvent): RunState {
  const cell = table[state.name][event.type] as (state: RunState, event: LifeEvent) => RunState;
  return cell(state, event);
}

export const newborn: RunState = { name: "starting", root: null, owed: null };
