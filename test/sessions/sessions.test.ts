import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BadInput, SessionClosed, SessionTaken } from "../../src/errors.js";
import type { SessionRecord } from "../../src/model/session.js";
import type { SessionOptions, Sessions } from "../../src/sessions/sessions.js";
import { ancestorIds } from "../../src/sessions/visibility.js";
import { openSessionFixture, type SessionFixture } from "../support/sessions/session-fixture.js";

let world: SessionFixture;
let sessions: Sessions;

beforeEach(async () => {
  world = await openSessionFixture();
  ({ sessions } = world);
});

afterEach(() => world[Symbol.asyncDispose]());

async function open(key: string, options?: SessionOptions): Promise<SessionRecord> {
  return (await sessions.open(key, options)).session;
}

describe("opening", () => {
  test("a session without options sees its tree, has no exec rules and no ancestors", async () => {
    expect(await open("main")).toEqual({
      id: expect.stringMatching(/^ses_[0-9a-z]{12}$/),
      key: "main",
      agentId: null,
      ownerSessionKey: null,
      spawnedBy: null,
      parentSessionKey: null,
      lineage: [],
      backend: null,
      gatewayInstanceId: "in_gateway",
      interactionMode: "interactive",
      sandboxed: false,
      visibility: "tree",
      execRules: [],
      createdAt: world.clock.wallTime,
      closedAt: null,
      closedBy: null,
      closeReason: null,
      agentSessionId: null,
    });
  });

  test("a session has the options of its caller", async () => {
    const said = {
      agentId: "codex",
      ownerSessionKey: "missing",
      backend: "acp",
      interactionMode: "run",
      sandboxed: true,
      visibility: "all",
      execRules: [{ effect: "allow", executable: "git" }],
    } as const;
    expect(await open("child", said)).toMatchObject(said);
  });

  test("a second time returns the same session", async () => {
    const options = { agentId: "codex", execRules: [{ effect: "allow" }] } as const;
    const first = await sessions.open("main", options);
    expect(first.created).toBe(true);
    expect(await sessions.open("main", options)).toEqual({ session: first.session, created: false });
    expect(await sessions.open("main")).toEqual({ session: first.session, created: false });
  });

  test.each<SessionOptions>([
    { agentId: "claude" },
    { ownerSessionKey: "boss" },
    { visibility: "all" },
    { sandboxed: true },
    { execRules: [{ effect: "allow" }] },
  ])("again with %o is refused, and nothing changes", async (other) => {
    const first = await open("main", { agentId: "codex" });
    await expect(sessions.open("main", other)).rejects.toBeInstanceOf(SessionTaken);
    expect(await sessions.list()).toEqual([first]);
  });

  test.each(["", " a", "a ", "a\nb", "a\u202eb", "\u001b[2J", "x".repeat(201), "ses_0123456789ab"])(
    "%j is no key",
    async (key) => {
      await expect(sessions.open(key)).rejects.toBeInstanceOf(BadInput);
      await expect(sessions.open("ok", { parentSessionKey: key })).rejects.toBeInstanceOf(BadInput);
      expect(await sessions.list()).toEqual([]);
    },
  );
});

describe("lineage", () => {
  test("names owner, spawner, parent and all of their ancestors, by id", async () => {
    const top = await open("top");
    const owner = await open("owner", { parentSessionKey: "top" });
    const spawner = await open("spawner", { parentSessionKey: "top" });
    const parent = await open("parent");
    const child = await open("child", {
      ownerSessionKey: "owner",
      spawnedBy: "spawner",
      parentSessionKey: "parent",
    });
    expect(new Set(child.lineage)).toEqual(new Set([top.id, owner.id, spawner.id, parent.id]));
    expect(child.lineage).toHaveLength(4);
  });

  test("skips a key without an open session, and a later session with that key", async () => {
    const child = await open("child", { ownerSessionKey: "later" });
    expect(child).toMatchObject({ lineage: [], ownerSessionKey: "later" });
    const later = await open("later", { visibility: "all" });
    expect(sessions.canSee(later, child).visible).toBe(false);
  });

  test("a parent must be an open session", async () => {
    const parent = await open("parent");
    expect(await open("child", { parentSessionKey: "parent" })).toMatchObject({ lineage: [parent.id] });
    await sessions.close(parent.id, "cli:ada");
    for (const parentSessionKey of ["missing", "parent"])
      await expect(sessions.open("late", { parentSessionKey })).rejects.toMatchObject({
        code: "BAD_INPUT",
        message: `no open session has the key "${parentSessionKey}" to be the parent; no session was opened`,
      });
    expect(await sessions.getByKey("late")).toBeNull();
  });

  test("a key used again inherits nothing: no child, no token", async () => {
    const first = await open("main");
    const token = (await sessions.issueToken(first.id)) ?? expect.fail("no token");
    const child = await open("child", { ownerSessionKey: "main" });
    await sessions.close(first.id, "cli:ada");
    const second = await open("main");
    expect(second.id).not.toBe(first.id);
    expect(sessions.canSee(second, child).visible).toBe(false);
    expect(await sessions.authenticate(token)).toBeNull();
    const again = sessions.open("child", { ownerSessionKey: "main" });
    await expect(again).rejects.toBeInstanceOf(SessionTaken);
  });

  test("contains each ancestor once, and every nearest one", () => {
    const id = fc.constantFrom("a", "b", "c", "d");
    fc.assert(
      fc.property(fc.array(fc.record({ id, lineage: fc.array(id) })), (nearest) => {
        const lineage = ancestorIds(nearest);
        expect(new Set(lineage).size).toBe(lineage.length);
        for (const each of nearest)
          expect(lineage).toEqual(expect.arrayContaining([each.id, ...each.lineage]));
      }),
    );
  });
});

test("a session started from a sandbox is sandboxed", async () => {
  await open("box", { sandboxed: true });
  const child = await open("child", { spawnedBy: "box", sandboxed: false, visibility: "all" });
  expect(child.sandboxed).toBe(true);
  expect((await open("grandchild", { ownerSessionKey: "child" })).sandboxed).toBe(true);
  expect((await open("stranger")).sandboxed).toBe(false);
});

describe("tokens", () => {
  test("act for their session until it is closed", async () => {
    const session = await open("main", { agentId: "codex" });
    const token = (await sessions.issueToken(session.id)) ?? expect.fail("no token");
    expect(token).toMatch(/^hft_[\w-]{43}$/);
    expect(await sessions.authenticate(token)).toEqual(session);
    expect(await sessions.close(session.id, "cli:ada")).toBe(true);
    expect(await sessions.close(session.id, "cli:ada")).toBe(false);
    expect(await sessions.authenticate(token)).toBeNull();
    expect(await sessions.issueToken(session.id)).toBeNull();
  });

  test("are revoked one by one", async () => {
    const { id } = await open("main");
    const [one, two] = [await sessions.issueToken(id), await sessions.issueToken(id)];
    expect(one).not.toBe(two);
    expect(await sessions.revokeToken(one ?? "")).toBe(true);
    expect(await sessions.authenticate(one ?? "")).toBeNull();
    expect(await sessions.authenticate(two ?? "")).toMatchObject({ id });
    expect(await sessions.revokeToken("nonsense")).toBe(false);
  });

  test("that were not issued are refused", async () => {
    const { id } = await open("main");
    const token = (await sessions.issueToken(id)) ?? expect.fail("no token");
    const wrong = ["", "hft_", id, "main", token.slice(0, -1), `${token}x`, token.toUpperCase(), ` ${token}`];
    for (const each of wrong) expect(await sessions.authenticate(each)).toBeNull();
  });

  test("are nowhere on disk", async () => {
    const { id } = await open("main");
    const token = (await sessions.issueToken(id)) ?? expect.fail("no token");
    const directory = dirname(world.path);
    for (const file of await readdir(directory)) {
      const bytes = await readFile(join(directory, file), "latin1");
      expect(bytes).not.toContain(token.slice(4));
    }
  });
});

test("a session opened for another is its child and may do no more", async () => {
  const execRules = [{ effect: "allow", executable: "git" }] as const;
  const boss = await open("boss", { agentId: "planner", visibility: "agent", execRules });
  const { session: child } = await sessions.openFor(boss, "child", { agentId: "planner", visibility: "all" });
  expect(child).toMatchObject({
    agentId: "planner",
    ownerSessionKey: "boss",
    spawnedBy: "boss",
    parentSessionKey: "boss",
    lineage: [boss.id],
    visibility: "agent",
    sandboxed: false,
    execRules,
  });
  const boxed = await open("boxed", { visibility: "self", sandboxed: true });
  const { session: inside } = await sessions.openFor(boxed, "inside", { sandboxed: false });
  expect(inside).toMatchObject({ sandboxed: true, visibility: "self", lineage: [boxed.id] });
  await sessions.close(boss.id, "cli:ada");
  await expect(sessions.openFor(boss, "late")).rejects.toBeInstanceOf(BadInput);
  const { session: main } = await sessions.openFor(null, "main");
  expect(main).toMatchObject({ lineage: [], visibility: "tree" });
});

test("a session opened for another sees no session that its opener cannot see, whatever its agent", async () => {
  await using wide = await openSessionFixture({
    a2aPolicy: { enabled: true, allow: [{ from: "codex", to: "claude" }] },
    visibility: "all",
  });
  const make = async (key: string, agentId: string): Promise<SessionRecord> =>
    (await wide.sessions.open(key, { agentId })).session;
  const boss = await make("boss", "planner");
  const others = [await make("a codex", "codex"), await make("a claude", "claude")];
  for (const agentId of ["codex", "planner", undefined]) {
    const named = agentId === undefined ? {} : { agentId };
    const { session } = await wide.sessions.openFor(boss, `${agentId}'s`, named);
    for (const other of others) {
      expect(wide.sessions.canSee(boss, other).visible).toBe(false);
      expect({ agentId, ...wide.sessions.canSee(session, other) }).toMatchObject({ visible: false });
    }
  }
  const { session: same } = await wide.sessions.openFor(boss, "same", { agentId: "planner" });
  expect(same.visibility).toBe("all");
});

test("a session whose key was reused opens no child of the new session", async () => {
  const first = await open("main");
  await sessions.close(first.id, "cli:ada");
  const second = await open("main");
  await expect(sessions.openFor(first, "late")).rejects.toBeInstanceOf(SessionClosed);
  expect(await sessions.find("late")).toBeNull();
  const { session } = await sessions.openFor(second, "in time");
  expect(session.lineage).toEqual([second.id]);
});

test("a session learns only that a foreign key is in use", async () => {
  const curious = await open("curious");
  await open("hidden", { agentId: "codex", backend: "cli", visibility: "self" });
  const guesses: SessionOptions[] = [{}, { agentId: "codex" }, { agentId: "claude" }, { backend: "acp" }];
  for (const guess of guesses)
    await expect(sessions.openFor(curious, "hidden", guess)).rejects.toThrow(
      "session key hidden is taken: an open session has it; no session was opened",
    );
});

test("a session is found by its id, and by its key while it is open", async () => {
  const first = await open("main");
  expect(await sessions.find("main")).toEqual(first);
  await sessions.close(first.id, "cli:ada");
  expect(await sessions.find("main")).toBeNull();
  expect(await sessions.find(first.id)).toMatchObject({ id: first.id, closedAt: expect.any(Number) });
  const second = await open("main");
  expect((await sessions.find("main"))?.id).toBe(second.id);
});

test("visibility depends on the requester's level, its sandbox and the a2a policy", async () => {
  await using open2 = await openSessionFixture({
    a2aPolicy: { enabled: true, allow: [{ from: "codex", to: "claude" }] },
    visibility: "all",
  });
  const make = async (key: string, options: SessionOptions): Promise<SessionRecord> =>
    (await open2.sessions.open(key, options)).session;
  const codex = await make("codex", { agentId: "codex" });
  const boxed = await make("boxed", { agentId: "codex", sandboxed: true });
  const claude = await make("claude", { agentId: "claude" });
  expect(open2.sessions.canSee(codex, claude)).toEqual({ visible: true, rule: "a2a" });
  expect(open2.sessions.canSee(boxed, claude)).toEqual({ visible: false, rule: "sandboxed" });
  expect(open2.sessions.canSee(claude, codex)).toEqual({ visible: false, rule: "a2a-no-rule" });
});
