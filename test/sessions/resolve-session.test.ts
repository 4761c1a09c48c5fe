import { afterEach, beforeEach, expect, test } from "vitest";
import { Authorizer } from "../../src/sessions/authorizer.js";
import type { Requester } from "../../src/sessions/requester.js";
import type { SessionRecord } from "../../src/model/session.js";
import { openSessionFixture, type SessionFixture } from "../support/sessions/session-fixture.js";

let fixture: SessionFixture;
let authorizer: Authorizer;
const operator: Requester = { kind: "operator", actor: "operator" };

beforeEach(async () => {
  fixture = await openSessionFixture();
  authorizer = new Authorizer(fixture.sessions, () => undefined);
});
afterEach(() => fixture[Symbol.asyncDispose]());

async function open(key: string, parentSessionKey?: string): Promise<SessionRecord> {
  fixture.clock.wallTime += 1;
  const parent = parentSessionKey === undefined ? {} : { parentSessionKey };
  return (await fixture.sessions.open(key, parent)).session;
}

async function close({ id }: SessionRecord): Promise<void> {
  await fixture.sessions.close(id, "operator");
}

function as(session: SessionRecord): Requester {
  return { kind: "session", actor: `session:${session.key}`, session };
}

async function idOf(wanted: string, requester = operator): Promise<string> {
  return (await authorizer.requireSession(requester, wanted)).id;
}

test("a key means the open session with it, and after its end the newest closed one", async () => {
  const first = await open("build");
  await close(first);
  expect(await idOf("build")).toBe(first.id);
  const second = await open("build");
  expect(await idOf("build")).toBe(second.id);
  await close(second);
  expect(await idOf("build")).toBe(second.id);
  expect(await idOf(first.id)).toBe(first.id);
});

test("a session names its own child first, open or ended, without its own key", async () => {
  const parent = await open("lead");
  const other = await open("build");
  const child = await open("lead/build", "lead");
  expect(await idOf("build", as(parent))).toBe(child.id);
  expect(await idOf("lead/build", as(parent))).toBe(child.id);
  expect(await idOf("build")).toBe(other.id);
  await close(child);
  expect(await idOf("build", as(parent))).toBe(child.id);
});

test("a whole key comes before an abbreviation, also if its session is closed", async () => {
  const ended = await open("site");
  await close(ended);
  await open("sitemap");
  expect(await idOf("site")).toBe(ended.id);
});

test("the last part of a key comes before the beginning of another, and an open session before a closed one", async () => {
  const old = await open("a/docs");
  await close(old);
  expect(await idOf("docs")).toBe(old.id);
  const child = await open("b/docs");
  await open("docs-site");
  expect(await idOf("docs")).toBe(child.id);
  expect(await idOf("docs-")).not.toBe(child.id);
});

test("several ended sessions with one key are one name", async () => {
  await close(await open("a/docs"));
  const newest = await open("a/docs");
  await close(newest);
  expect(await idOf("docs")).toBe(newest.id);
  expect(await idOf("a/d")).toBe(newest.id);
});

test("an abbreviation of several sessions is refused, and the error names them", async () => {
  const [one, two] = [await open("a/docs"), await open("b/docs")];
  await expect(idOf("docs")).rejects.toMatchObject({
    code: "BAD_INPUT",
    message: expect.stringMatching(
      new RegExp(`^"docs" is the last part .*: b/docs \\(${two.id}\\), a/docs \\(${one.id}\\); name one`),
    ) as string,
  });
  await expect(idOf("ses_")).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test("a session that may not be seen is answered like a missing one under every name, and hides no visible one", async () => {
  const stranger = await open("other/build");
  const parent = await open("lead");
  for (const name of [stranger.id, "other/build", "build", "oth"])
    await expect(idOf(name, as(parent))).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: `there is no session ${name}; \`holdfast sessions list --all\` lists all`,
    });
  const child = await open("lead/x/build", "lead");
  expect(await idOf("build", as(parent))).toBe(child.id);
});
