import { describe, expect, test } from "vitest";
import type { LocalInstance } from "../../../src/anchor/host-interface.js";
import { defaults } from "../../../src/defaults.js";
import type { RunRecord } from "../../../src/model/run.js";
import {
  type ClaimGround,
  decide,
  type Evidence,
  type ImportedEvidence,
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

function reconcileContext(change: Partial<ReconcileContext> = {}): ReconcileContext {
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

/** A running run of `owner` whose lease expired `expiredMs` ago. */
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
  const { stalledOwnerMs } = defaults;
  test.each<[string, RunRecord, string]>([
    ["a healthy lease of a live instance", run("alive", -1), "leave healthy"],
    ["a healthy lease of a dead instance", run("dead", -1), "leave healthy"],
    ["a healthy lease of an unknown instance", run("unknown", -1), "leave healthy"],
    ["an own lease, expired long ago", run("me", HOUR), "mine null"],
    ["an own lease before it expires", run("me", -1), "mine null"],
    ["an expired lease of a dead instance", run("dead", 0), "lock-free 0"],
    ["an expired lease of a live instance, which may be suspended", run("alive", HOUR / 60), "leave stalled"],
    ["a live instance's, expired for ten leases", run("alive", stalledOwnerMs), `stalled ${stalledOwnerMs}`],
    ["a live instance's, one millisecond earlier", run("alive", stalledOwnerMs - 1), "leave stalled"],
    ["an unknown instance's, just expired", run("unknown", 1), "leave stalled"],
    ["an unknown instance's, for ten leases", run("unknown", stalledOwnerMs), `stalled ${stalledOwnerMs}`],
    ["another machine's", run("unknown", HOUR, ELSEWHERE), "leave elsewhere"],
    ["another machine's, of a dead local instance", run("dead", HOUR, ELSEWHERE), "leave elsewhere"],
    ["another machine's, of this instance", run("me", HOUR, ELSEWHERE), "leave elsewhere"],
    ["another boot's, of an unknown instance", run("unknown", HOUR, BEFORE), "leave elsewhere"],
    ["another boot's, not yet expired", run("unknown", -HOUR, BEFORE), "leave elsewhere"],
    ["another container's, of an unknown instance", run("unknown", HOUR, CONTAINER), "leave elsewhere"],
    ["an own lease of another boot", run("me", -HOUR, BEFORE), "mine null"],
    ["another boot's, of a dead local instance", run("dead", -HOUR, BEFORE), "other-boot null"],
    ["another boot's, of a live local instance", run("alive", HOUR, BEFORE), "leave healthy"],
    ["another container's, of a dead local instance", run("dead", HOUR, CONTAINER), "lock-free 0"],
    ["another container's, of a live local instance", run("alive", HOUR, CONTAINER), "leave stalled"],
    ["another state directory's", run("unknown", HOUR, BESIDE), "leave elsewhere"],
    ["another state directory's, copied here", run("dead", HOUR, BESIDE), "leave elsewhere"],
    [
      "another state directory's and boot's",
      run("unknown", HOUR, { ...BESIDE, ...BEFORE }),
      "leave elsewhere",
    ],
    ["another state directory's, imported", run(NEVER_OWNED, 0, BESIDE), "leave elsewhere"],
    ["this state directory's", run("dead", 0, { stateId: "here" }), "lock-free 0"],
    ["an imported run, never owned", run(NEVER_OWNED, 0), "never-owned 0"],
    ["a run imported before a restart", run(NEVER_OWNED, 0, BEFORE), "other-boot null"],
  ])("%s", (_, record, expected) => {
    const found = judgeLease(record, reconcileContext({ stateId: "here" }));
    const result =
      found.kind === "open"
        ? `${found.claim.evidence} ${found.claim.expiredForMs}`
        : `${found.decision.action} ${found.decision.row}`;
    expect(result).toBe(expected);
  });

  test("expired for ten leases on a shared clock: open only after it was observed for a while", () => {
    const after = (ms: number): string =>
      judgeLease(
        run("alive", defaults.stalledOwnerMs),
        reconcileContext({ sharedClock: true, unreachableMs: () => ms }),
      ).kind;
    expect(after(0)).toBe("decided");
    expect(after(defaults.stalledWatchMs - 1)).toBe("decided");
    expect(after(defaults.stalledWatchMs)).toBe("open");
  });

  test("unreachable for a day: the record is ended as lost, not before", () => {
    const after = (ms: number): string => {
      const found = judgeLease(
        run("unknown", HOUR, ELSEWHERE),
        reconcileContext({ unreachableMs: () => ms }),
      );
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

describe("by the evidence", () => {
  function expectDecision(record: RunRecord, claim: ClaimGround, change: Partial<Evidence>, wanted: string) {
    const { action, row, why } = decide(record, claim, seen(change), HERE);
    expect(`${action} ${row}`).toBe(wanted);
    expect(why).not.toBe("");
  }

  test.each<[string, Partial<Evidence>, string]>([
    ["an exit file", { exitFile: true }, "finalize exit-file"],
    ["an exit file and a populated cgroup", { exitFile: true, boundary: "populated" }, "finalize exit-file"],
    ["a live anchor", { anchor: "alive", root: "alive" }, "continue anchor-alive"],
    ["a dead anchor and a verified root", { root: "alive" }, "sweep root-alive"],
    ["a populated cgroup only", { boundary: "populated" }, "sweep detached-orphaned"],
    ["a report of its launcher", { swept: true }, "lose swept"],
    ["an empty cgroup", { boundary: "empty" }, "lose swept"],
    ["a removed cgroup", { boundary: "gone" }, "lose swept"],
    ["an empty cgroup and a marker outside", { boundary: "empty", marked: true }, "lose unverifiable"],
    ["an empty cgroup and a failed search for markers", { boundary: "empty", marked: null }, "leave unseen"],
    ["nothing", {}, "lose unverifiable"],
    ["an anchor that cannot be inspected", { anchor: "unknown" }, "leave unseen"],
    ["a root that cannot be inspected", { root: "unknown" }, "leave unseen"],
    ["a cgroup that cannot be inspected", { boundary: "unknown" }, "leave unseen"],
  ])("an own run with %s", (_, change, wanted) => {
    expectDecision(run("me", 1), MINE, change, wanted);
  });

  test.each<[string, Partial<Evidence>, string]>([
    ["nothing", {}, "spawn-error never-executed"],
    ["an empty cgroup", { boundary: "empty" }, "spawn-error never-executed"],
    ["a populated cgroup", { boundary: "populated" }, "sweep detached-orphaned"],
    ["a cgroup that cannot be inspected", { boundary: "unknown" }, "leave unseen"],
    ["an anchor that answers", { anchor: "alive" }, "continue anchor-alive"],
  ])("a run without a recorded process, with %s", (_, change, wanted) => {
    expectDecision(run("me", 1, { anchor: null, root: null, state: "starting" }), MINE, change, wanted);
  });

  test.each<[ImportedEvidence, string]>([
    [{ kind: "matches" }, "sweep imported"],
    [{ kind: "gone" }, "lose imported"],
    [{ kind: "differs", why: "x" }, "leave imported"],
    [{ kind: "unknown", why: "x" }, "leave imported"],
  ])("an imported run whose process is %j", (imported, wanted) => {
    expectDecision(run(NEVER_OWNED, 1), DEAD, { imported }, wanted);
    // A process with this pid in another container is another one, even if it looks the same.
    expectDecision(run(NEVER_OWNED, 1, CONTAINER), DEAD, { imported }, "leave elsewhere");
  });

  const adopts = run("dead", 1);
  const terminates = run("dead", 1, { policy: { ...adopts.policy, onOrphan: "terminate" } });
  test.each<[string, RunRecord, ClaimGround, Partial<Evidence>, string]>([
    ["to be adopted", adopts, DEAD, { anchor: "alive" }, "adopt anchor-alive"],
    ["to end with its owner", terminates, DEAD, { anchor: "alive" }, "terminate anchor-alive"],
    [
      "with an exit file of another boot",
      run("me", 1, BEFORE),
      MINE,
      { exitFile: true },
      "finalize exit-file",
    ],
    ["of another boot", run("me", 1, BEFORE), MINE, { anchor: "alive", root: "alive" }, "lose other-boot"],
    [
      "with an exit file elsewhere",
      run("dead", 1, CONTAINER),
      DEAD,
      { exitFile: true },
      "finalize exit-file",
    ],
    ["of another container", run("dead", 1, CONTAINER), DEAD, {}, "leave elsewhere"],
    [
      "of this instance elsewhere",
      run("me", 1, CONTAINER),
      MINE,
      { anchor: "alive" },
      "continue anchor-alive",
    ],
    ["of this instance elsewhere, without an answer", run("me", 1, CONTAINER), MINE, {}, "lose unverifiable"],
  ])("a run %s", (_, record, claim, change, wanted) => {
    expectDecision(record, claim, change, wanted);
  });

  test("evidence of another machine, boot or container never leads to a signal", () => {
    const liveness = ["alive", "gone", "unknown"] as const;
    for (const anchor of liveness)
      for (const root of liveness)
        for (const boundary of [null, "populated", "empty", "gone", "unknown"] as const)
          for (const place of [BEFORE, CONTAINER])
            for (const [owner, claim] of Object.entries({ me: MINE, dead: DEAD })) {
              const { action } = decide(run(owner, 1, place), claim, seen({ anchor, root, boundary }), HERE);
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
