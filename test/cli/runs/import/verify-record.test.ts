import { describe, expect, test } from "vitest";
import type { ProcessEvidence } from "../../../../src/anchor/host-interface.js";
import {
  type ForeignRecord,
  leasesOfFile,
  parseAcpxLock,
  parseAcpxSession,
  parseOpenclawLease,
} from "../../../../src/cli/runs/import/foreign-records.js";
import { type ForeignEvidence, verifyRecord } from "../../../../src/cli/runs/import/verify-record.js";

const BOOT = 1_700_000_000_000;
const TICKS = 500_000;
const STARTED = BOOT + TICKS * 10;

const SESSION = {
  schema: "acpx.session.v1",
  acpx_record_id: "rec-1",
  acp_session_id: "acp-1",
  agent_command: "node /opt/agents/agent.mjs --acp",
  agent_argv: ["node", "/opt/agents/agent.mjs", "--acp"],
  cwd: "/work",
  closed: false,
  pid: 4711,
  agent_started_at: new Date(STARTED + 80).toISOString(),
};
const LEASE = {
  leaseId: "9b0e2c1a",
  gatewayInstanceId: "gw-1",
  sessionKey: "agent:codex:acp:1",
  wrapperRoot: "/home/ada/.openclaw/acpx",
  wrapperPath: "/home/ada/.openclaw/acpx/codex-acp-wrapper.mjs",
  rootPid: 4711,
  commandHash: "x",
  startedAt: STARTED - 30,
  state: "open",
};

function live(change: Partial<ProcessEvidence> = {}): ProcessEvidence {
  return {
    identity: { pid: 4711, startTime: TICKS, uniqueId: null },
    alive: true,
    matches: true,
    state: "S",
    parentPid: 1,
    processGroupId: 4711,
    sessionId: 4711,
    uid: 1000,
    cgroup: null,
    command: "node",
    argv: SESSION.agent_argv,
    stdio: [],
    executable: "/usr/bin/node",
    leaseId: null,
    runId: null,
    instanceId: null,
    sessionKey: null,
    ancestors: [],
    descendants: [],
    ...change,
  };
}

function evidence(change: Partial<ForeignEvidence> = {}): ForeignEvidence {
  return {
    live: live(),
    owner: null,
    bootedAt: BOOT,
    ticksPerSecond: 100,
    uid: 1000,
    wholeMachine: true,
    ownerGone: false,
    ...change,
  };
}

function session(change: object = {}, owner: number | null = null): ForeignRecord {
  const owners = new Map(owner === null ? [] : [["rec-1", owner]]);
  return parseAcpxSession({ ...SESSION, ...change }, owners) as ForeignRecord;
}

const lease = (change: object = {}) => parseOpenclawLease({ ...LEASE, ...change }) as ForeignRecord;
const leaseArgv = [
  "node",
  LEASE.wrapperPath,
  "--openclaw-acpx-lease-id",
  LEASE.leaseId,
  "--openclaw-gateway-instance-id",
  LEASE.gatewayInstanceId,
];

describe("a process is verified", () => {
  test("if it was started without a wrapper, and pid, start time and whole command match", () => {
    expect(verifyRecord(session(), evidence())).toMatchObject({
      verified: true,
      facts: { pid: 4711, wrapperRoot: "/opt/agents", startTime: TICKS },
    });
    // Earlier versions of acpx recorded only the text of the command.
    expect(verifyRecord(session({ agent_argv: undefined }), evidence())).toMatchObject({ verified: true });
  });

  test("if it is a wrapper below its root with the lease in its arguments", () => {
    expect(verifyRecord(lease(), evidence({ live: live({ argv: leaseArgv }) }))).toMatchObject({
      verified: true,
      facts: { pid: 4711, wrapperRoot: LEASE.wrapperRoot, startTime: TICKS },
    });
  });

  test("if its recorded owner is gone or younger than it, or the operator says that the tool is gone", () => {
    const elsewhere = live({ parentPid: 77 });
    const young = live({ identity: { ...live().identity, pid: 88, startTime: TICKS + 1 } });
    for (const [record, change] of [
      [session({}, 88), { live: elsewhere, owner: live({ alive: false }) }],
      [session({}, 88), { live: elsewhere, owner: young }],
      [session(), { live: elsewhere, ownerGone: true }],
      [session(), { wholeMachine: false, ownerGone: true }],
    ] as const)
      expect(verifyRecord(record, evidence(change))).toMatchObject({ verified: true });
  });
});

describe("a process is left alone", () => {
  const old = live({ identity: { ...live().identity, pid: 88, startTime: TICKS - 9 } });
  test.each<[string, ForeignRecord, Partial<ForeignEvidence>, RegExp]>([
    ["the session is closed", session({ closed: true }), {}, /has ended/],
    [
      "the agent's exit is recorded",
      session({ last_agent_exit_at: new Date(STARTED + 999).toISOString() }),
      {},
      /ended/,
    ],
    ["the lease is closed", lease({ state: "closed" }), {}, /has ended/],
    ["it is gone", session(), { live: live({ alive: false }) }, /gone/],
    ["it cannot be inspected", session(), { live: null }, /cannot be inspected/],
    ["it belongs to a run of Holdfast", session(), { live: live({ runId: "run_1" }) }, /run_1/],
    ["it belongs to another user", session(), { live: live({ uid: 0 }) }, /another user/],
    ["no start time is recorded", session({ agent_started_at: null }), {}, /no start time/],
    ["the start time is not a time", session({ agent_started_at: "soon" }), {}, /no start time/],
    [
      "the pid was used again",
      session({ agent_started_at: new Date(STARTED + 9_000).toISOString() }),
      {},
      /another time/,
    ],
    [
      "it runs another command",
      session(),
      { live: live({ argv: ["node", "/opt/agents/agent.mjs"] }) },
      /another command/,
    ],
    ["the command cannot be read", session(), { live: live({ argv: [] }) }, /cannot be read/],
    [
      "the command names no program by its path",
      session({ agent_argv: ["npx", "-y", "codex-acp"] }),
      { live: live({ argv: ["npx", "-y", "codex-acp"] }) },
      /absolute path/,
    ],
    ["its recorded owner is alive", session({}, 88), { owner: old }, /owner, process 88, is alive/],
    [
      "its owner is alive, whatever the operator says",
      session({}, 88),
      { owner: old, ownerGone: true },
      /is alive/,
    ],
    ["its owner cannot be inspected", session({}, 88), { owner: null }, /cannot be inspected/],
    [
      "its parent is another process",
      session(),
      { live: live({ parentPid: 77 }) },
      /process 77, may be its owner/,
    ],
    ["its parent is process 1 of a container", session(), { wholeMachine: false }, /in a container/],
    [
      "the wrapper has another lease",
      lease(),
      { live: live({ argv: [...leaseArgv.slice(0, 3), "other", ...leaseArgv.slice(4)] }) },
      /recorded lease/,
    ],
    ["the wrapper has no lease", lease(), { live: live({ argv: leaseArgv.slice(0, 2) }) }, /recorded lease/],
    [
      "the wrapper is not the recorded one",
      lease(),
      { live: live({ argv: ["node", "/tmp/x.mjs", ...leaseArgv.slice(2)] }) },
      /recorded wrapper/,
    ],
    [
      "the wrapper is not below its root",
      lease({ wrapperRoot: "/opt" }),
      { live: live({ argv: leaseArgv }) },
      /below/,
    ],
  ])("if %s", (_, record, change, why) => {
    const verdict = verifyRecord(record, evidence(change));
    expect(verdict).toEqual({ verified: false, why: expect.stringMatching(why) as string });
  });
});

test("a session of openclaw in its former format is the same record", () => {
  const {
    acpx_record_id: acpxRecordId,
    agent_command: agentCommand,
    agent_started_at: agentStartedAt,
  } = SESSION;
  const ids = { acpxRecordId, acpSessionId: "acp-1", cwd: "/work", lastAgentExitAt: agentStartedAt };
  const legacy = { schema: "openclaw.acpx.session.v1", agentCommand, agentStartedAt, pid: 4711, ...ids };
  const { agent_argv: _, ...current } = { ...SESSION, last_agent_exit_at: agentStartedAt };
  const parsed = parseAcpxSession(legacy, new Map());
  expect(parsed).toMatchObject({ pid: 4711, startedAt: STARTED + 80, ended: true, sessionKey: "rec-1" });
  expect(parsed).toEqual(parseAcpxSession(current, new Map()));
});

test("a record without a process is skipped, and a file of another format is refused", () => {
  expect(session({ pid: null })).toBeNull();
  expect(lease({ rootPid: 0 })).toBeNull();
  for (const raw of [
    null,
    [],
    { ...SESSION, schema: "acpx.session.v2" },
    { ...SESSION, pid: 1 },
    { ...SESSION, pid: "4711" },
  ])
    expect(parseAcpxSession(raw, new Map())).toHaveProperty("unreadable");
  for (const raw of [{}, { ...LEASE, leaseId: "" }, { ...LEASE, state: "unknown" }])
    expect(parseOpenclawLease(raw)).toHaveProperty("unreadable");
  expect(leasesOfFile({ version: 2, leases: [] })).toHaveProperty("unreadable");
  expect(leasesOfFile({ version: 1, leases: [LEASE] })).toEqual([LEASE]);
  expect(parseAcpxLock({ pid: 88, sessionId: "rec-1", socketPath: "/x" })).toEqual({
    pid: 88,
    sessionId: "rec-1",
  });
  expect(parseAcpxLock({ pid: 0, sessionId: "rec-1" })).toBeNull();
});
