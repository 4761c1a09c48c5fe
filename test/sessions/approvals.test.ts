import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { TooManyApprovals } from "../../src/errors.js";
import { Approvals, openApprovals, type ExecApprovalRequest } from "../../src/sessions/approvals.js";
import { questionAboutCommand, NO_STDIN } from "../../src/sessions/approval-question.js";
import type { Approval, ApprovalDecision, SessionRecord } from "../../src/model/session.js";
import type { SessionStore } from "../../src/store/sessions/store.js";
import { openSessionFixture, type SessionFixture } from "../support/session-fixture.js";

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

/** Asked, and the row that the operator sees of it. */
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
  expect(await approvals.decide(id, verdict, "cli:ada")).toMatchObject({
    decided: true,
    approval: { decision },
  });
  expect(await answer).toEqual(decision);
  expect((await approvals.get(id))?.decision).toEqual(decision);
  expect(await approvals.listPending()).toEqual([]);
  expect(news.map((each) => each.decision)).toEqual([null, decision]);
  expect(world.clock.timers).toBe(0);
});

test("one of two answers counts, and both callers learn which", async () => {
  const { id, answer } = await ask();
  const both = await Promise.all([
    approvals.decide(id, "allow", "cli:ada"),
    approvals.decide(id, "deny", "cli:bob"),
  ]);
  expect(both.filter((each) => each?.decided)).toHaveLength(1);
  const truth = await answer;
  for (const each of both) expect(each?.approval.decision).toEqual(truth);
  expect(news).toHaveLength(2);
});

test("a question without an answer expires", async () => {
  const { id, answer } = await ask();
  world.clock.advance(defaults.approvalMs - 1);
  expect((await approvals.get(id))?.decision).toBeNull();
  world.clock.advance(1);
  expect(await answer).toMatchObject({ verdict: "expired" });
  expect((await approvals.get(id))?.decision).toEqual(await answer);
  expect(await approvals.decide(id, "allow", "cli:ada")).toMatchObject({
    decided: false,
    approval: { decision: { verdict: "expired" } },
  });
});

test("a wall clock that is set expires nothing and delays nothing", async () => {
  const { id, answer } = await ask();
  world.clock.wallTime += 100 * defaults.approvalMs;
  expect((await approvals.get(id))?.decision).toBeNull();
  world.clock.wallTime = 0;
  world.clock.advance(defaults.approvalMs);
  expect((await answer).verdict).toBe("expired");
});

test("secrets in a command are not stored", async () => {
  const token = `hft_${"a1B2".repeat(11)}`;
  const argv = ["curl", "--token", "hunter2", `https://u:hunter2@x.org/${token}`];
  const { id } = await ask({ ...push, argv, executable: `/opt/${token}/curl`, cwd: `/tmp/${token}` });
  const asked = await approvals.get(id);
  expect(JSON.stringify(asked)).not.toContain("hunter2");
  expect(asked?.command).not.toContain(token);
  // Whoever is asked sees which file is executed, and where.
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
    expect(await approvals.get(id)).toMatchObject({
      command: "sh -c 'echo Cookie: a; id > /tmp/x'",
      question: { whole: true },
    });
    expect((await approvals.listPending())[0]?.command).toContain("id > /tmp/x");
    expect(news[0]?.command).toContain("id > /tmp/x");
    expect((await world.store.getApproval(id))?.command).toBe("sh -c 'echo Cookie: ***'");
    await approvals.decide(id, "deny", "cli:ada");
    expect(await approvals.get(id)).toMatchObject({ question: null, decision: { verdict: "deny" } });
  });

  test("must be read completely before it is allowed, if the list cannot show it", async () => {
    const { id, answer } = await ask(long);
    const [listed] = await approvals.listPending();
    expect(listed).toMatchObject({ question: { whole: false, digest: null } });
    expect(listed?.command).toMatch(/… \(not shown whole\)$/);
    await expect(approvals.decide(id, "allow", "cli:ada")).rejects.toMatchObject({ code: "BAD_INPUT" });
    await expect(approvals.decide(id, "allow", "cli:ada", "another")).rejects.toThrow("nothing was decided");
    expect((await world.store.getApproval(id))?.decision).toBeNull();
    const page = await approvals.page(id, 1, false);
    expect(JSON.stringify(page?.parts)).toContain("id > /tmp/x");
    expect(page?.digest).toBe(questionAboutCommand(long).digest);
    expect(await approvals.decide(id, "allow", "cli:ada", page?.digest ?? "")).toMatchObject({
      decided: true,
    });
    expect((await answer).verdict).toBe("allow");
    expect(await approvals.page(id, 1, false)).toMatchObject({ pages: 0, parts: [], digest: null });
  });

  test("is not asked about if it cannot be executed", async () => {
    const argv = ["echo", ...Array<string>(1_000_000).fill("x")];
    await expect(approvals.ask(session, { ...push, argv })).rejects.toMatchObject({ code: "BAD_INPUT" });
    expect(await approvals.listPending()).toEqual([]);
  });

  test("can be denied without being read", async () => {
    const { id } = await ask(long);
    expect(await approvals.decide(id, "deny", "cli:ada")).toMatchObject({ decided: true });
  });

  test("an answer with the digest of another question is refused", async () => {
    const { id } = await ask(push);
    const { digest } = questionAboutCommand({ ...push, argv: ["git", "pull"] });
    await expect(approvals.decide(id, "allow", "cli:ada", digest)).rejects.toThrow("nothing was decided");
    expect((await approvals.get(id))?.decision).toBeNull();
  });
});

describe("a question whose caller is gone", () => {
  test("expires at once", async () => {
    const caller = new AbortController();
    const { id, answer } = await ask(push, { signal: caller.signal });
    caller.abort();
    expect(await answer).toMatchObject({ verdict: "expired", actor: "caller gone" });
    expect((await approvals.get(id))?.decision).toEqual(await answer);
    expect(world.clock.timers).toBe(0);
  });

  test("also if its caller was gone before", async () => {
    expect(await approvals.ask(session, push, { signal: AbortSignal.abort() })).toMatchObject({
      verdict: "expired",
    });
    expect(await approvals.listPending()).toEqual([]);
  });
});

test("closing a session ends its own questions only", async () => {
  const bystander = (await world.sessions.open("bystander")).session;
  const innocent = approvals.ask(bystander, push);
  const { answer } = await ask();
  await world.sessions.close(session.id, "cli:ada");
  expect(await answer).toMatchObject({ verdict: "expired", actor: "cli:ada" });
  const [left, ...others] = await approvals.listPending();
  expect(others).toEqual([]);
  expect(left?.sessionId).toBe(bystander.id);
  await approvals.decide(left?.id ?? "", "allow", "cli:ada");
  expect((await innocent).verdict).toBe("allow");
});

test("a closed session can ask nothing", async () => {
  await world.sessions.close(session.id, "cli:ada");
  expect(await approvals.ask(session, push)).toMatchObject({ verdict: "expired" });
  expect(await world.store.listApprovals({})).toEqual([]);
});

test("a session with too many questions is refused, others are not", async () => {
  const answers = Array.from({ length: defaults.approvalsPending }, () => approvals.ask(session, push));
  await expect(approvals.ask(session, push)).rejects.toBeInstanceOf(TooManyApprovals);
  const other = (await world.sessions.open("other")).session;
  answers.push(approvals.ask(other, push));
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
    await openApprovals({ store, clock, gatewayInstanceId: "in_another", onProblem });
    expect((await store.getApproval(id))?.decision).toBeNull();
    await openApprovals({ store, clock, gatewayInstanceId: "in_gateway", onProblem });
    expect((await store.getApproval(id))?.decision).toMatchObject({
      verdict: "expired",
      actor: "gateway restarted",
    });
  });

  test("ends the waiting questions when it stops", async () => {
    const { answer } = await ask();
    await approvals[Symbol.asyncDispose]();
    expect(await answer).toMatchObject({ verdict: "expired", actor: "gateway stopped" });
  });

  test("never records an allow without a waiting caller", async () => {
    const { id } = await ask();
    const { store, clock } = world;
    const later = new Approvals({
      store,
      clock,
      gatewayInstanceId: "in_gateway",
      onProblem: () => undefined,
    });
    expect(await later.decide(id, "allow", "cli:ada")).toMatchObject({
      decided: false,
      approval: { decision: { verdict: "expired" } },
    });
  });

  test("does not end questions of another gateway", async () => {
    const { id } = await ask();
    const { store, clock } = world;
    const another = new Approvals({
      store,
      clock,
      gatewayInstanceId: "in_another",
      onProblem: () => undefined,
    });
    expect(await another.decide(id, "allow", "cli:ada")).toMatchObject({
      decided: false,
      approval: { decision: null },
    });
  });
});

test("an unknown question cannot be answered", async () => {
  expect(await approvals.decide("apr_none", "allow", "cli:ada")).toBeNull();
});

describe("with a store that fails", () => {
  test("a question that cannot be recorded is not asked", async () => {
    const store = broken(world.store, "insertApproval");
    const failing = new Approvals({ store, gatewayInstanceId: "in_gateway", onProblem: () => undefined });
    await expect(failing.ask(session, push)).rejects.toThrow("disk");
    expect(await approvals.listPending()).toEqual([]);
  });

  test("a caller gets its answer in time, and a late answer allows nothing", async () => {
    const problems: string[] = [];
    const { clock } = world;
    const store = broken(world.store, "expireApprovals");
    const failing = new Approvals({
      store,
      clock,
      gatewayInstanceId: "in_gateway",
      onProblem: (message) => problems.push(message),
    });
    const answer = failing.ask(session, push);
    await new Promise(setImmediate);
    const [{ id } = { id: "" }] = await failing.listPending();
    clock.advance(defaults.approvalMs);
    expect((await answer).verdict).toBe("expired");
    expect(problems).toEqual([expect.stringContaining(id)]);
    await expect(failing.decide(id, "allow", "cli:ada")).rejects.toThrow("disk");
    expect((await world.store.getApproval(id))?.decision).toBeNull();
  });
});

function broken(store: SessionStore, method: keyof SessionStore): SessionStore {
  return new Proxy(store, {
    get(target, name) {
      if (name === method) return () => Promise.reject(new Error("the disk is full"));
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

describe("a follower", () => {
  test("gets the waiting questions, then each question and each end, once", async () => {
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

  test("that does not read is disconnected", async () => {
    const following = approvals.follow(new AbortController().signal);
    await ask();
    const { value } = await following.next();
    expect(value).toMatchObject({ decision: null });
    for (let told = 0; told <= defaults.approvalsUnread; told += 2) {
      const gone = new AbortController();
      const answer = approvals.ask(session, push, { signal: gone.signal });
      gone.abort();
      await answer;
    }
    expect(await following.next()).toMatchObject({ done: true });
  });
});
