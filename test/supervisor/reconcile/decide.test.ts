import { describe, expect, test } from "vitest";
import type { LocalInstance } from "../../../src/anchor/host.js";
import { defaults } from "../../../src/defaults.js";
import type { RunRecord } from "../../../src/model/run.js";
import {
  type ClaimGround,
  decide,
  type Evidence,
  judgeLease,
  NEVER_OWNED,
  type ReconcileContext,
} from "../../../src/supervisor/reconcile/decide.js";
import { sampleRunRecord } from "../../support/store/run-samples.js";

const NOW = 1_000_000;
const HERE = { hostId: "host", bootId: "boot", pidNamespace: "pid:[1]", timeNamespace: null };
const ELSEWHERE = { hostId: "other host" };
const BEFORE = { bootId: "other boot" };
const BESIDE = { stateId: "another" };
const CONTAINER = { pidNamespace: "pid:[2]" };
const identity = { pid: 10, startTime: 20, uniqueId: "30" };

const locals: readonly LocalInstance[] = [
  { instanceId: "me", alive: true, launched: true },
  { instanceId: "alive", alive: true, launched: true },
  { instanceId: "dead", alive: false, launched: false },
];

function around(change: Partial<ReconcileContext> = {}): ReconcileContext {
  return {
    instanceId: "me",
    stateId: null,
    machine: HERE,
    now: NOW,
    instances: new Map(locals.map((each) => [each.instanceId, each])),
    unreachableMs: () => 0,
    sharedClock: false,
    ...change,
  };
}

/** A running run of `owner`'s whose lease expired so long ago. */
function run(owner: string, expiredMs: number, change: Partial<RunRecord> = {}): RunRecord {
  return sampleRunRecord({
    ...HERE,
    state: "running",
    anchor: identity,
    root: identity,
    originInstanceId: owner,
    ownerInstanceId: owner,
    leaseExpiresAt: NOW - expiredMs,
    endedAt: null,
    exit: null,
    emptiness: null,
    ...change,
  });
}

const HOUR = 3_600_000;

describe("by the lease", () => {
  test.each<[string, RunRecord, string]>([
    ["a healthy lease of another is not touched", run("alive", -1), "leave healthy"],
    ["nor a healthy one of an instance that is dead already", run("dead", -1), "leave healthy"],
    ["nor a healthy one of a stranger on this machine", run("unknown", -1), "leave healthy"],
    ["what is mine is open, however long expired", run("me", HOUR), "mine null"],
    ["what is mine is open before it expires", run("me", -1), "mine null"],
    ["expired, and its owner is dead: open", run("dead", 0), "lock-free 0"],
    ["expired, but its owner lives: it may be asleep", run("alive", HOUR / 60), "leave stalled"],
    [
      "expired for ten leases: open, whoever holds the lock",
      run("alive", defaults.stalledOwnerMs),
      `stalled ${defaults.stalledOwnerMs}`,
    ],
    ["one millisecond less: not", run("alive", defaults.stalledOwnerMs - 1), "leave stalled"],
    ["expired, of a stranger on this machine: only after ten leases", run("unknown", 1), "leave stalled"],
    ["and then", run("unknown", defaults.stalledOwnerMs), `stalled ${defaults.stalledOwnerMs}`],
    ["another machine's is never open", run("unknown", HOUR, ELSEWHERE), "leave elsewhere"],
    [
      "not even a dead local instance's: the directory was moved",
      run("dead", HOUR, ELSEWHERE),
      "leave elsewhere",
    ],
    ["nor mine", run("me", HOUR, ELSEWHERE), "leave elsewhere"],
    ["another boot's of no instance here", run("unknown", HOUR, BEFORE), "leave elsewhere"],
    ["another boot's, whatever its clock said", run("unknown", -HOUR, BEFORE), "leave elsewhere"],
    ["another container's of no instance here", run("unknown", HOUR, CONTAINER), "leave elsewhere"],
    ["mine of another boot", run("me", -HOUR, BEFORE), "mine null"],
    ["a dead local instance's of another boot", run("dead", -HOUR, BEFORE), "other-boot null"],
    [
      "a live local instance's of another boot is its own affair",
      run("alive", HOUR, BEFORE),
      "leave healthy",
    ],
    ["a dead local instance's of another container", run("dead", HOUR, CONTAINER), "lock-free 0"],
    [
      "a live one's of another container, however long expired",
      run("alive", HOUR, CONTAINER),
      "leave stalled",
    ],
    ["another state directory's of this machine", run("unknown", HOUR, BESIDE), "leave elsewhere"],
    ["nor when the owner's directory was copied here", run("dead", HOUR, BESIDE), "leave elsewhere"],
    ["nor of another boot", run("unknown", HOUR, { ...BESIDE, ...BEFORE }), "leave elsewhere"],
    ["nor imported there", run(NEVER_OWNED, 0, BESIDE), "leave elsewhere"],
    ["this state directory's", run("dead", 0, { stateId: "here" }), "lock-free 0"],
    ["imported, never owned by anybody", run(NEVER_OWNED, 0), "never-owned 0"],
    ["imported before a restart", run(NEVER_OWNED, 0, BEFORE), "other-boot null"],
  ])("%s", (_, record, expected) => {
    const found = judgeLease(record, around({ stateId: "here" }));
    const said =
      found.kind === "open"
        ? `${found.claim.evidence} ${found.claim.expiredForMs}`
        : `${found.decision.action} ${found.decision.row}`;
    expect(said).toBe(expected);
  });

  test("expired for ten leases on a shared clock: open only after it was observed for a while", () => {
    const after = (ms: number): string =>
      judgeLease(
        run("alive", defaults.stalledOwnerMs),
        around({ sharedClock: true, unreachableMs: () => ms }),
      ).kind;
    expect(after(0)).toBe("decided");
    expect(after(defaults.stalledWatchMs - 1)).toBe("decided");
    expect(after(defaults.stalledWatchMs)).toBe("open");
  });

  test("unreachable for a day: the record is ended as lost, not before", () => {
    const after = (ms: number): string => {
      const found = judgeLease(run("unknown", HOUR, ELSEWHERE), around({ unreachableMs: () => ms }));
      return found.kind === "open" ? "open" : found.decision.action;
    };
    expect(after(defaults.hostLostMs - 1)).toBe("leave");
    expect(after(defaults.hostLostMs)).toBe("lose");
  });
});

const MINE: ClaimGround = { evidence: "mine", expiredForMs: null };
const DEAD: ClaimGround = { evidence: "lock-free", expiredForMs: 0 };

function seen(change: Partial<Evidence> = {}): Evidence {
  return {
    exitFile: false,
    swept: false,
    anchor: "gone",
    root: "gone",
    boundary: null,
    marked: false,
    imported: null,
    ...change,
  };
}

const adopts = run("dead", 1);
const terminates = run("dead", 1, { policy: { ...adopts.policy, onOrphan: "terminate" } });
const never = run("me", 1, { anchor: null, root: null, state: "starting" });

describe("by the evidence", () => {
  test.each<[string, RunRecord, ClaimGround, Evidence, string]>([
    ["an exit file", run("me", 1), MINE, seen({ exitFile: true }), "finalize exit-file"],
    [
      "an exit file, although its cgroup is not empty",
      run("me", 1),
      MINE,
      seen({ exitFile: true, boundary: "populated" }),
      "finalize exit-file",
    ],
    [
      "an exit file of another boot is as true",
      run("me", 1, BEFORE),
      MINE,
      seen({ exitFile: true }),
      "finalize exit-file",
    ],
    [
      "an exit file of another container",
      run("dead", 1, CONTAINER),
      DEAD,
      seen({ exitFile: true }),
      "finalize exit-file",
    ],
    ["another boot", run("me", 1, BEFORE), MINE, seen(), "lose other-boot"],
    [
      "another boot, its numbers are somebody else's now",
      run("me", 1, BEFORE),
      MINE,
      seen({ anchor: "alive", root: "alive" }),
      "lose other-boot",
    ],
    ["never executed", never, MINE, seen(), "spawn-error never-executed"],
    [
      "never executed, its cgroup empty",
      never,
      MINE,
      seen({ boundary: "empty" }),
      "spawn-error never-executed",
    ],
    [
      "no identity, but a cgroup with somebody in it",
      never,
      MINE,
      seen({ boundary: "populated" }),
      "sweep detached-orphaned",
    ],
    [
      "no identity, and a cgroup that cannot be looked at",
      never,
      MINE,
      seen({ boundary: "unknown" }),
      "leave unseen",
    ],
    ["behind the gate, its anchor answers", never, MINE, seen({ anchor: "alive" }), "continue anchor-alive"],
    [
      "mine, its anchor lives",
      run("me", 1),
      MINE,
      seen({ anchor: "alive", root: "alive" }),
      "continue anchor-alive",
    ],
    ["a dead owner's, to be adopted", adopts, DEAD, seen({ anchor: "alive" }), "adopt anchor-alive"],
    [
      "a dead owner's, not to outlive it",
      terminates,
      DEAD,
      seen({ anchor: "alive" }),
      "terminate anchor-alive",
    ],
    ["anchor dead, root verified", run("me", 1), MINE, seen({ root: "alive" }), "sweep root-alive"],
    [
      "anchor and root gone, cgroup not empty",
      run("me", 1),
      MINE,
      seen({ boundary: "populated" }),
      "sweep detached-orphaned",
    ],
    ["swept by its launcher", run("me", 1), MINE, seen({ swept: true }), "lose swept"],
    ["its cgroup is empty", run("me", 1), MINE, seen({ boundary: "empty" }), "lose swept"],
    ["its cgroup is gone", run("me", 1), MINE, seen({ boundary: "gone" }), "lose swept"],
    [
      "its cgroup is empty, but somebody outside carries its marker",
      run("me", 1),
      MINE,
      seen({ boundary: "empty", marked: true }),
      "lose unverifiable",
    ],
    ["nothing verifiable", run("me", 1), MINE, seen(), "lose unverifiable"],
    ["anchors cannot be looked at", run("me", 1), MINE, seen({ anchor: "unknown" }), "leave unseen"],
    ["the root cannot be looked at", run("me", 1), MINE, seen({ root: "unknown" }), "leave unseen"],
    ["the cgroup cannot be looked at", run("me", 1), MINE, seen({ boundary: "unknown" }), "leave unseen"],
    [
      "imported in another container: its number is somebody else's here, who may run the same command",
      run(NEVER_OWNED, 1, { ...CONTAINER, anchor: null, root: null }),
      { evidence: "never-owned", expiredForMs: 0 },
      seen({ imported: { kind: "matches" } }),
      "leave elsewhere",
    ],
    [
      "imported in another container, and nobody has its number here",
      run("me", 1, { ...CONTAINER, anchor: null, root: null }),
      MINE,
      seen({ imported: { kind: "gone" } }),
      "leave elsewhere",
    ],
    ["another container, of a dead owner", run("dead", 1, CONTAINER), DEAD, seen(), "leave elsewhere"],
    [
      "another container, mine, and its anchor answers",
      run("me", 1, CONTAINER),
      MINE,
      seen({ anchor: "alive" }),
      "continue anchor-alive",
    ],
    [
      "another container, mine, and nobody answers",
      run("me", 1, CONTAINER),
      MINE,
      seen(),
      "lose unverifiable",
    ],
    [
      "imported, all of it matches",
      run(NEVER_OWNED, 1),
      DEAD,
      seen({ imported: { kind: "matches" } }),
      "sweep imported",
    ],
    [
      "imported, the process is gone",
      run(NEVER_OWNED, 1),
      DEAD,
      seen({ imported: { kind: "gone" } }),
      "lose imported",
    ],
    [
      "imported, another command",
      run(NEVER_OWNED, 1),
      DEAD,
      seen({ imported: { kind: "differs", why: "x" } }),
      "leave imported",
    ],
    [
      "imported, nobody can look",
      run(NEVER_OWNED, 1),
      DEAD,
      seen({ imported: { kind: "unknown", why: "x" } }),
      "leave imported",
    ],
  ])("%s", (_, record, claim, sight, expected) => {
    const { action, row, why } = decide(record, claim, sight, HERE);
    expect(`${action} ${row}`).toBe(expected);
    expect(why).not.toBe("");
  });

  test("evidence of another machine, boot or container never leads to a signal", () => {
    const looks = (["alive", "gone", "unknown"] as const).flatMap((anchor) =>
      (["alive", "gone", "unknown"] as const).flatMap((root) =>
        ([null, "populated", "empty", "gone", "unknown"] as const).map((boundary) =>
          seen({ anchor, root, boundary }),
        ),
      ),
    );
    for (const sight of looks)
      for (const place of [BEFORE, CONTAINER])
        for (const [owner, claim] of [
          ["me", MINE],
          ["dead", DEAD],
        ] as const) {
          const { action } = decide(run(owner, 1, place), claim, sight, HERE);
          expect(["sweep", "adopt", "terminate"]).not.toContain(action);
        }
  });
});

test("a run of a dead owner in another container is ended as lost after a day without an answer, not before", () => {
  const after = (ms: number, change: Partial<Evidence> = {}): string =>
    decide(run("dead", HOUR, CONTAINER), DEAD, seen(change), HERE, ms).action;
  expect(after(defaults.hostLostMs - 1)).toBe("leave");
  expect(after(defaults.hostLostMs)).toBe("lose");
  expect(after(defaults.hostLostMs, { anchor: "alive" })).toBe("leave");
  expect(after(defaults.hostLostMs, { anchor: "unknown" })).toBe("leave");
});
