import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  initialState,
  step,
  type RunOutcome,
  type RunStateEvent,
  type RunState,
} from "../../../src/supervisor/run/state-machine.js";

const root = { pid: 10, startTime: 1, uniqueId: "1" };
const failure = { errno: 2, step: "exec", message: "no such command" };
const status = { code: 3, signal: null } as const;
const survivors = [{ pid: 11, startTime: 2, kind: "unkillable", command: "dd" }];
const stop = (reason: string) => ({ reason, actor: "test", requestId: reason });
const ending = (detail: string): RunOutcome => ({
  exit: {
    reason: "exit",
    actor: "",
    code: 0,
    signal: null,
    source: "anchor",
    detail,
    errno: null,
    limitHit: null,
  },
  residue: [],
  residueCount: 0,
  usage: null,
  emptiness: "proven",
});

const events = {
  gated: { type: "gated", root },
  started: { type: "started" },
  failed: { type: "failed", failure },
  stop: { type: "stop", stop: stop("second") },
  leader: { type: "leader", status },
  survivors: { type: "survivors", survivors },
  exited: { type: "exited", outcome: ending("exited") },
  lost: { type: "lost", outcome: ending("lost") },
} as const satisfies { readonly [Type in RunStateEvent["type"]]: Extract<RunStateEvent, { type: Type }> };
type EventName = keyof typeof events;

const stopped: RunState = {
  name: "exiting",
  root,
  cause: { by: "stop", stop: stop("first") },
  leader: null,
  survivors: [],
};
const states = {
  "starting, no root": initialState,
  "starting, no root, stop owed": { name: "starting", root: null, pendingStop: stop("first") },
  "starting, gated": { name: "starting", root, pendingStop: null },
  running: { name: "running", root },
  exiting: stopped,
  exited: { name: "exited", root, outcome: ending("first") },
} as const satisfies Record<string, RunState>;
type StateName = keyof typeof states;

const exiting = (change: Partial<Extract<RunState, { name: "exiting" }>>): RunState => ({
  ...stopped,
  ...change,
});
const over = (state: StateName, event: "exited" | "lost"): RunState => ({
  name: "exited",
  root: states[state].root,
  outcome: events[event].outcome,
});

/** `same`: nothing happens. */
const table: Record<StateName, Record<EventName, RunState | "same">> = {
  "starting, no root": {
    gated: states["starting, gated"],
    started: "same",
    failed: "same",
    stop: { name: "starting", root: null, pendingStop: stop("second") },
    leader: "same",
    survivors: "same",
    exited: over("starting, no root", "exited"),
    lost: over("starting, no root", "lost"),
  },
  "starting, no root, stop owed": {
    gated: stopped,
    started: "same",
    failed: "same",
    stop: { name: "starting", root: null, pendingStop: stop("first") },
    leader: "same",
    survivors: "same",
    exited: over("starting, no root, stop owed", "exited"),
    lost: over("starting, no root, stop owed", "lost"),
  },
  "starting, gated": {
    gated: { name: "starting", root, pendingStop: null },
    started: states.running,
    failed: exiting({ cause: { by: "failure", failure } }),
    stop: exiting({ cause: { by: "stop", stop: stop("second") } }),
    leader: exiting({ cause: { by: "leader", status }, leader: status }),
    survivors: "same",
    exited: over("starting, gated", "exited"),
    lost: over("starting, gated", "lost"),
  },
  running: {
    gated: "same",
    started: "same",
    failed: "same",
    stop: exiting({ cause: { by: "stop", stop: stop("second") } }),
    leader: exiting({ cause: { by: "leader", status }, leader: status }),
    survivors: "same",
    exited: over("running", "exited"),
    lost: over("running", "lost"),
  },
  exiting: {
    gated: "same",
    started: "same",
    failed: "same",
    stop: "same",
    leader: exiting({ leader: status }),
    survivors: exiting({ survivors }),
    exited: over("exiting", "exited"),
    lost: over("exiting", "lost"),
  },
  exited: {
    gated: "same",
    started: "same",
    failed: "same",
    stop: "same",
    leader: "same",
    survivors: "same",
    exited: "same",
    lost: "same",
  },
};

describe("every transition", () => {
  for (const state of Object.keys(table) as StateName[])
    for (const event of Object.keys(events) as EventName[])
      test(`${state} × ${event}`, () => {
        const wanted = table[state][event];
        const after = step(states[state], events[event]);
        if (wanted === "same") expect(after).toBe(states[state]);
        else expect(after).toEqual(wanted);
      });
});

const anyStop = fc
  .constantFrom("manual-cancel", "overall-timeout", "no-output-timeout", "shutdown")
  .map(stop);
const anyEvent: fc.Arbitrary<RunStateEvent> = fc.oneof(
  fc.constant(events.gated),
  fc.constant(events.started),
  fc.constant(events.failed),
  fc.constant(events.leader),
  fc.constant(events.survivors),
  anyStop.map((each): RunStateEvent => ({ type: "stop", stop: each })),
  fc.nat().map((n): RunStateEvent => ({ type: "exited", outcome: ending(`exited ${n}`) })),
  fc.nat().map((n): RunStateEvent => ({ type: "lost", outcome: ending(`lost ${n}`) })),
);
const isEnd = ({ type }: RunStateEvent): boolean => type === "exited" || type === "lost";

function causeOf(state: RunState): unknown {
  if (state.name === "exiting") return state.cause;
  return state.name === "starting" && state.pendingStop !== null
    ? { by: "stop", stop: state.pendingStop }
    : null;
}

test("the first reason counts, whatever follows", () => {
  fc.assert(
    fc.property(fc.array(anyEvent), (sequence) => {
      let state = initialState;
      let first: unknown = null;
      for (const event of sequence) {
        state = step(state, event);
        if (state.name === "exited") return;
        if (first !== null) expect(causeOf(state)).toEqual(first);
        first ??= causeOf(state);
      }
    }),
  );
});

test("nothing changes after the end", () => {
  fc.assert(
    fc.property(fc.array(anyEvent), fc.array(anyEvent), (before, after) => {
      const end: RunStateEvent = { type: "exited", outcome: ending("the end") };
      const ended = [...before, end].reduce(step, initialState);
      expect(after.reduce(step, ended)).toBe(ended);
    }),
  );
});

test("every interleaving ends in exactly one outcome: that of its first end", () => {
  const life: fc.Arbitrary<RunStateEvent[]> = fc.shuffledSubarray<RunStateEvent>(
    [
      events.gated,
      events.started,
      events.stop,
      events.leader,
      events.exited,
      events.lost,
      { type: "stop", stop: stop("third") },
    ],
    { minLength: 1 },
  );
  fc.assert(
    fc.property(life, (sequence) => {
      const state = sequence.reduce(step, initialState);
      const end = sequence.find(isEnd);
      if (end === undefined) expect(state.name).not.toBe("exited");
      else expect(state).toMatchObject({ name: "exited", outcome: "outcome" in end ? end.outcome : null });
    }),
  );
});

test("states only go forward", () => {
  const rank = ["starting", "running", "exiting", "exited"];
  fc.assert(
    fc.property(fc.array(anyEvent), (sequence) => {
      let state = initialState;
      for (const event of sequence) {
        const next = step(state, event);
        expect(rank.indexOf(next.name)).toBeGreaterThanOrEqual(rank.indexOf(state.name));
        state = next;
      }
    }),
  );
});
