import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { TooManyApprovals } from "../../src/errors.js";
import {
  Approvals,
  type ApprovalsDependencies,
  type ExecApprovalRequest,
  openApprovals,
} from "../../src/sessions/approvals.js";
import { questionAboutCommand, NO_STDIN } from "../../src/sessions/approval-question.js";
import type { Approval, ApprovalDecision } from "../../src/model/exec/approval.js";
import type { SessionRecord } from "../../src/model/session.js";
import type { SessionStore } from "../../src/store/sessions/contract.js";
import type { Store } from "../../src/store/store.js";
import { overrideStore } from "../support/agents/acp-fixture.js";
import { openSessionFixture, type SessionFixture } from "../support/sessions/session-fixture.js";

let world: SessionFixture;
let approvals: Approvals;
let session: SessionRecord;
let news: Approval[];

beforeEach(async () => {
  news = [];
  world = await openSessionFixture({ onChange: (approval) => news.push(approval) });
  ({ approvals } = world);
  ({ session } = await world.sessions.open("main"));
});

afterEach(() => world[Symbol.asyncDispose]());

const push: ExecApprovalRequest = {
  executable: "/usr/bin/git",
  argv: ["git", "push"],
  cwd: "/work",
  env: { set: {}, unset: [], unlisted: [] },
  stdin: NO_STDIN,
  rule: 2,
};

const EXPIRED = { decided: false, approval: { decision: { verdict: "expired" } } };

/** The approvals of another process or gateway on the same store. */
function other(more: Partial<ApprovalsDependencies> = {}): Approvals {
  const { store, clock } = world;
  const onProblem = (): undefined => undefined;
  return new Approvals({ store, clock, gatewayInstanceId: "in_gateway", onProblem, ...more });
}

/** Asks a question. Resolves when it waits for an answer. */
async function ask(
  question: ExecApprovalRequest = push,
  options: { readonly signal?: AbortSignal } = {},
): Promise<{ readonly id: string; readonly answer: Promise<ApprovalDecision> }> {
  const answer = approvals.ask(session, question, options);
  answer.catch(() => undefined);
  await new Promise(setImmediate);
  const { id = "" } = (await approvals.listPending()).at(-1) ?? {};
  return { id, answer };
}

test("a question is recorded before it is answered", async () => {
  await ask();
  expect(await approvals.listPending()).toEqual([
    {
      id: expect.stringMatching(/^apr_[0-9a-z]{12}$/),
      sessionId: session.id,
      gatewayInstanceId: "in_gateway",
      executable: "/usr/bin/git",
      command: "git push",
      cwd: "/work",
      rule: 2,
      askedAt: world.clock.wallTime,
      expiresAt: world.clock.wallTime + defaults.approvalMs,
      decision: null,
      question: { whole: true, digest: questionAboutCommand(push).digest },
    },
  ]);
  expect(news).toEqual(await approvals.listPending());
});

test.each(["allow", "deny"] as const)("%s reaches the caller and the record", async (verdict) => {
  const { id, answer } = await ask();
  const decision = { verdict, actor: "cli:ada", at: world.clock.wallTime };
  const decided = await approvals.decide(id, verdict, "cli:ada");
  expect(decided).toMatchObject({ decided: true, approval: { decision } });
  expect(await answer).toEqual(decision);
  expect((await approvals.get(id))?.decision).toEqual(decision);
  expect(await approvals.listPending()).toEqual([]);
  expect(news.map((each) => each.decision)).toEqual([null, decision]);
  expect(world.clock.timers).toBe(0);
});

test("one of two answers counts, both callers learn which, and an unknown question has none", async () => {
  const { id, answer } = await ask();
  const both = await Promise.all([
    approvals.decide(id, "allow", "cli:ada"),
    approvals.decide(id, "deny", "cli:bob"),
  ]);
  expect(both.filter((each) => each?.decided)).toHaveLength(1);
  const truth = await answer;
  for (const each of both) expect(each?.approval.decision).toEqual(truth);
  expect(news).toHaveLength(2);
  expect(await approvals.decide("apr_none", "allow", "cli:ada")).toBeNull();
});

test("a question without an answer expires, whatever the wall clock says", async () => {
  const { id, answer } = await ask();
  world.clock.wallTime += 100 * defaults.approvalMs;
  world.clock.advance(defaults.approvalMs - 1);
  expect((await approvals.get(id))?.decision).toBeNull();
  world.clock.wallTime = 0;
  world.clock.advance(1);
  expect(await answer).toMatchObject({ verdict: "expired" });
  expect((await approvals.get(id))?.decision).toEqual(await answer);
  expect(await approvals.decide(id, "allow", "cli:ada")).toMatchObject(EXPIRED);
});

test("secrets in a command are not stored", async () => {
  const token = `hft_${"a1B2".repeat(11)}`;
  const argv = ["curl", "--token", "hunter2", `https://u:hunter2@x.org/${token}`];
  const { id } = await ask({ ...push, argv, executable: `/opt/${token}/curl`, cwd: `/tmp/${token}` });
  const asked = await approvals.get(id);
  expect(JSON.stringify(asked)).not.toContain("hunter2");
  expect(asked?.command).not.toContain(token);
  // The operator sees which file is executed, and where.
  expect(asked).toMatchObject({ executable: `/opt/${token}/curl`, cwd: `/tmp/${token}` });
  const stored = JSON.stringify(await world.store.getApproval(id));
  expect(stored).not.toContain("hunter2");
  expect(stored).not.toContain(token);
  expect(stored).toContain("curl");
});

describe("the command of a question", () => {
  const hiding: ExecApprovalRequest = { ...push, argv: ["sh", "-c", "echo Cookie: a; id > /tmp/x"] };
  const long: ExecApprovalRequest = { ...push, argv: ["sh", "-c", `${"echo x; ".repeat(100)}id > /tmp/x`] };

  test("is shown while it waits, and stored redacted", async () => {
    const { id } = await ask(hiding);
    const shown = { command: "sh -c 'echo Cookie: a; id > /tmp/x'", question: { whole: true } };
    expect(await approvals.get(id)).toMatchObject(shown);
    expect(await approvals.listPending()).toMatchObject([shown]);
    expect(news).toMatchObject([shown]);
    expect((await world.store.getApproval(id))?.command).toBe("sh -c 'echo Cookie: ***'");
    await approvals.decide(id, "deny", "cli:ada");
    expect(await approvals.get(id)).toMatchObject({ question: null, decision: { verdict: "deny" } });
  });

  test("must be read completely to be allowed, not to be denied, if the list cannot show it", async () => {
    expect(await approvals.decide((await ask(long)).id, "deny", "cli:ada")).toMatchObject({ decided: true });
    const { id, answer } = await ask(long);
    const [listed] = await approvals.listPending();
    expect(listed).toMatchObject({ question: { whole: false, digest: null } });
    expect(listed?.command).toMatch(/… \(not shown whole\)$/);
    await expect(approvals.decide(id, "allow", "cli:ada")).rejects.toMatchObject({ code: "BAD_INPUT" });
    const { digest } = questionAboutCommand(push);
    await expect(approvals.decide(id, "allow", "cli:ada", digest)).rejects.toThrow("nothing was decided");
    expect((await world.store.getApproval(id))?.decision).toBeNull();
    const page = await approvals.page(id, 1, false);
    expect(JSON.stringify(page?.parts)).toContain("id > /tmp/x");
    expect(page?.digest).toBe(questionAboutCommand(long).digest);
    const allowed = await approvals.decide(id, "allow", "cli:ada", page?.digest ?? "");
    expect(allowed).toMatchObject({ decided: true });
    expect((await answer).verdict).toBe("allow");
    expect(await approvals.page(id, 1, false)).toMatchObject({ pages: 0, parts: [], digest: null });
  });

  test("is not asked about if it cannot be executed", async () => {
    const argv = ["echo", ...Array<string>(1_000_000).fill("x")];
    await expect(approvals.ask(session, { ...push, argv })).rejects.toMatchObject({ code: "BAD_INPUT" });
    expect(await approvals.listPending()).toEqual([]);
  });
});

test("a question whose caller is gone, also before it was asked, expires at once", async () => {
  const caller = new AbortController();
  const { id, answer } = await ask(push, { signal: caller.signal });
  caller.abort();
  expect(await answer).toMatchObject({ verdict: "expired", actor: "caller gone" });
  expect((await approvals.get(id))?.decision).toEqual(await answer);
  const again = await approvals.ask(session, push, { signal: caller.signal });
  expect(again).toMatchObject({ verdict: "expired" });
  expect(await approvals.listPending()).toEqual([]);
  expect(world.clock.timers).toBe(0);
});

test("closing a session ends its own questions only, and it can ask nothing more", async () => {
  const bystander = (await world.sessions.open("bystander")).session;
  const theirs = approvals.ask(bystander, push);
  const { answer } = await ask();
  await world.sessions.close(session.id, "cli:ada");
  expect(await answer).toMatchObject({ verdict: "expired", actor: "cli:ada" });
  expect(await approvals.ask(session, push)).toMatchObject({ verdict: "expired" });
  const [left, ...others] = await approvals.listPending();
  expect(others).toEqual([]);
  expect(left?.sessionId).toBe(bystander.id);
  await approvals.decide(left?.id ?? "", "allow", "cli:ada");
  expect((await theirs).verdict).toBe("allow");
});

test("a session with too many questions is refused, others are not", async () => {
  const answers = Array.from({ length: defaults.approvalsPending }, () => approvals.ask(session, push));
  await expect(approvals.ask(session, push)).rejects.toBeInstanceOf(TooManyApprovals);
  answers.push(approvals.ask((await world.sessions.open("other")).session, push));
  await new Promise(setImmediate);
  world.clock.advance(defaults.approvalMs);
  expect(new Set((await Promise.all(answers)).map(({ verdict }) => verdict))).toEqual(new Set(["expired"]));
  expect((await ask()).id).not.toBe("");
});

describe("a gateway that is gone", () => {
  test("leaves questions that expire at its next start", async () => {
    const { id } = await ask();
    const { store, clock } = world;
    const onProblem = (): never => expect.fail("a problem");
    for (const gatewayInstanceId of ["in_another", "in_gateway"]) {
      await openApprovals({ store, clock, gatewayInstanceId, onProblem });
      const expired = { verdict: "expired", actor: "gateway restarted", at: clock.wallTime };
      const decision = gatewayInstanceId === "in_another" ? null : expired;
      expect((await store.getApproval(id))?.decision).toEqual(decision);
    }
  });

  test("ends the waiting questions when it stops", async () => {
    const { answer } = await ask();
    await approvals[Symbol.asyncDispose]();
    expect(await answer).toMatchObject({ verdict: "expired", actor: "gateway stopped" });
  });

  test("never records an allow without a waiting caller, nor the end of a question of another gateway", async () => {
    const { id } = await ask();
    const another = other({ gatewayInstanceId: "in_another" });
    const open = { decided: false, approval: { decision: null } };
    expect(await another.decide(id, "allow", "cli:ada")).toMatchObject(open);
    expect(await other().decide(id, "allow", "cli:ada")).toMatchObject(EXPIRED);
  });
});

test("if the store fails, a question that cannot be recorded is not asked", async () => {
  const failing = other({ store: broken(world.store, "insertApproval") });
  await expect(failing.ask(session, push)).rejects.toThrow("disk");
  expect(await approvals.listPending()).toEqual([]);
});

test("if the store fails, a caller gets its answer in time, and a late answer allows nothing", async () => {
  const problems: string[] = [];
  const { clock } = world;
  const store = broken(world.store, "expireApprovals");
  const failing = other({ store, onProblem: (message) => problems.push(message) });
  const answer = failing.ask(session, push);
  await new Promise(setImmediate);
  const [{ id } = { id: "" }] = await failing.listPending();
  clock.advance(defaults.approvalMs);
  expect((await answer).verdict).toBe("expired");
  expect(problems).toEqual([expect.stringContaining(id)]);
  await expect(failing.decide(id, "allow", "cli:ada")).rejects.toThrow("disk");
  expect((await world.store.getApproval(id))?.decision).toBeNull();
});

function broken(store: Store, method: keyof SessionStore): Store {
  return overrideStore(store, { [method]: () => Promise.reject(new Error("the disk is full")) });
}

test("a follower gets the waiting questions, then each question and each end, once", async () => {
  const gone = new AbortController();
  const { id: first } = await ask();
  const following = approvals.follow(gone.signal);
  const heard: [string, string | null][] = [];
  const next = async (): Promise<void> => {
    const { value } = await following.next();
    if (value !== undefined) heard.push([value.id, value.decision?.verdict ?? null]);
  };
  await next();
  await approvals.decide(first, "allow", "cli:ada");
  await next();
  const { id: second } = await ask();
  await next();
  await approvals.sessionClosed(session.id);
  await next();
  expect(heard).toEqual([
    [first, null],
    [first, "allow"],
    [second, null],
    [second, "expired"],
  ]);
  const last = following.next();
  gone.abort();
  expect(await last).toMatchObject({ done: true });
});

test("a follower that does not read is disconnected", async () => {
  const following = approvals.follow(new AbortController().signal);
  await ask();
  const { value } = await following.next();
  expect(value).toMatchObject({ decision: null });
  for (let told = 0; told <= defaults.approvalsUnread; told += 2) {
    await approvals.ask(session, push, { signal: AbortSignal.abort() });
  }
  expect(await following.next()).toMatchObject({ done: true });
});
