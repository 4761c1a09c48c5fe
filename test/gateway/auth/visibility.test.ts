import { beforeAll, describe, expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { VISIBILITIES } from "../../../src/model/enums.js";
import { visibilityMatrix, RELATIONS, type Relation } from "../../support/sessions/visibility-matrix.js";
import {
  gatewayForFile,
  errorOf,
  type RawResponse,
  type RealGateway,
} from "../../support/gateway/real-gateway.js";

const VERBS = ["status", "history", "send"] as const;
type SessionVerb = (typeof VERBS)[number];

const AGENTS: Readonly<Record<Relation, string>> = {
  itself: "codex",
  "own child": "codex",
  "own cross-agent child": "claude",
  "own grandchild": "gemini",
  "same agent": "codex",
  "cross agent": "claude",
};

const keyOf = (who: string, relation: Relation): string => `${who}'s ${relation}`;

function ask(fixture: RealGateway, verb: SessionVerb, key: string, token: string): Promise<RawResponse> {
  const path = `/v1/sessions/${encodeURIComponent(key)}`;
  if (verb === "send") return fixture.raw("POST", `${path}/messages`, { token, body: '{"text":"hi"}' });
  return fixture.raw("GET", verb === "status" ? path : `${path}/history`, { token });
}

describe.each([
  { a2a: false, config: '[a2a]\nallow = [{ from = "*", to = "*" }]\n' },
  { a2a: true, config: '[a2a]\nenabled = true\nallow = [{ from = "codex", to = "claude" }]\n' },
])("with a2a $a2a", ({ a2a, config }) => {
  const fixture = gatewayForFile({ config: parseConfig(config, "") });
  const tokens = new Map<string, string>();
  const before = new Map<string, RawResponse>();
  const seats = [false, true].flatMap((sandboxed) =>
    VISIBILITIES.map((visibility) => ({
      visibility,
      sandboxed,
      who: `${visibility}${sandboxed ? ", boxed" : ""}`,
    })),
  );

  beforeAll(async () => {
    for (const { visibility, sandboxed, who } of seats) {
      const body = { key: keyOf(who, "itself"), agentId: AGENTS.itself, visibility, sandboxed };
      const { token } = await fixture.client.openSession({ body });
      tokens.set(who, token);
      // None of these sessions exists yet: later answers are compared with these.
      for (const relation of RELATIONS.slice(1))
        for (const verb of VERBS)
          before.set(
            `${verb} ${keyOf(who, relation)}`,
            await ask(fixture, verb, keyOf(who, relation), token),
          );
    }
    for (const { who } of seats)
      for (const relation of RELATIONS.slice(1)) {
        const parent = relation === "own grandchild" ? "own cross-agent child" : "itself";
        const body = {
          key: keyOf(who, relation),
          agentId: AGENTS[relation],
          ...(relation.startsWith("own") ? { parentSessionKey: keyOf(who, parent) } : {}),
        };
        await fixture.client.openSession({ body });
      }
  });

  test.each(seats)(
    "$who: list, status, history and send show the same, and only that",
    async ({ who, ...at }) => {
      const token = tokens.get(who) ?? "";
      const { sessions } = await fixture.as(token).listSessions({ query: { limit: 1_000 } });
      const listed = new Set(sessions.map(({ key }) => key));
      for (const { relation, visible } of visibilityMatrix.filter(
        (each) => each.a2a === a2a && each.visibility === at.visibility && each.sandboxed === at.sandboxed,
      )) {
        const key = keyOf(who, relation);
        expect({ relation, listed: listed.has(key) }).toEqual({ relation, listed: visible });
        for (const verb of VERBS) {
          const answer = await ask(fixture, verb, key, token);
          if (visible)
            expect({ relation, verb, status: answer.status }).toEqual({ relation, verb, status: 200 });
          // Byte for byte what it was when there was no such session.
          else
            expect({ relation, verb, ...answer }).toEqual({
              relation,
              verb,
              ...before.get(`${verb} ${key}`),
            });
        }
      }
    },
  );

  test.each(seats)(
    "$who: an allowed message is in the target's inbox with its sender; a refused one is not",
    async ({ who, ...at }) => {
      for (const { relation, visible } of visibilityMatrix.filter(
        (each) => each.a2a === a2a && each.visibility === at.visibility && each.sandboxed === at.sandboxed,
      )) {
        const { session, messages } = await fixture.client.sessionHistory({
          params: { id: keyOf(who, relation) },
        });
        const from = messages.filter(({ actor }) => actor === `session:${keyOf(who, "itself")}`);
        expect({ relation, from: from.length }).toEqual({ relation, from: visible ? 1 : 0 });
        if (visible)
          expect(from[0]).toMatchObject({
            role: "user",
            text: "hi",
            deliveredAt: null,
            sessionId: session.id,
          });
      }
    },
  );

  test("a lower requested visibility shows less, a higher one no more", async () => {
    for (const { who, visibility } of seats) {
      const client = fixture.as(tokens.get(who) ?? "");
      const keys = async (asked?: (typeof VISIBILITIES)[number]): Promise<Set<string>> => {
        const { sessions } = await client.listSessions({
          query: { limit: 1_000, ...(asked === undefined ? {} : { visibility: asked }) },
        });
        return new Set(sessions.map(({ key }) => key));
      };
      const own = await keys();
      const levels = [];
      for (const asked of VISIBILITIES) levels.push(await keys(asked));
      for (const [at, level] of levels.entries()) {
        for (const key of levels[at - 1] ?? []) expect(level).toContain(key);
        if (at >= VISIBILITIES.indexOf(visibility)) expect(level).toEqual(own);
      }
      expect(levels[0]).toEqual(new Set([keyOf(who, "itself")]));
      const child = { id: keyOf(who, "own child") };
      const self = { visibility: "self" } as const;
      for (const refused of [
        client.sessionStatus({ params: child, query: self }),
        client.sessionHistory({ params: child, query: self }),
        client.sendMessage({ params: child, body: { text: "x", ...self } }),
      ])
        expect(await errorOf(refused)).toEqual({
          code: "NOT_FOUND",
          message: `there is no session ${child.id}; \`holdfast sessions list --all\` lists all`,
        });
    }
  });

  test("the gateway's log has the rule of a denial; the session does not learn it", async () => {
    const stranger = keyOf("all, boxed", "cross agent");
    const denials = fixture.news.filter((each) => each.type === "denied" && each.what === stranger);
    const [first] = denials;
    expect(first).toMatchObject({
      actor: `session:${keyOf("all, boxed", "itself")}`,
      rule: "sandboxed",
      sessionId: expect.stringMatching(/^ses_/) as string,
    });
    expect(denials).toHaveLength(VERBS.length);
    const free = fixture.news.filter(
      (each) => each.type === "denied" && each.what === keyOf("all", "cross agent"),
    );
    if (a2a) expect(free).toEqual([]);
    else expect(free[0]).toMatchObject({ rule: "a2a-disabled" });
  });
});

describe("a key that is used again", () => {
  const fixture = gatewayForFile();

  test("inherits nothing: no runs, no messages, no children, no questions, no inbox", async () => {
    const key = "again";
    const rules = { execRules: [{ effect: "allow" as const, executable: "sleep" }] };
    const old = await fixture.client.openSession({ body: { key, agentId: "codex", ...rules } });
    const child = await fixture.client.openSession({ body: { key: "child", parentSessionKey: key } });
    const { run } = await fixture
      .as(old.token)
      .exec({ body: { argv: ["sleep", "60"], background: true, graceMs: 0 } });
    await fixture.client.sendMessage({ params: { id: key }, body: { text: "for the old one" } });
    const asked = errorOf(fixture.as(old.token).exec({ body: { argv: ["true"] } }));
    await expect
      .poll(async () => (await fixture.client.listApprovals()).approvals.length, { timeout: 15_000 })
      .toBe(1);
    await fixture.client.closeSession({ params: { id: old.session.id } });
    expect(await asked).toMatchObject({ code: "EXEC_DENIED" });

    const next = await fixture.client.openSession({
      body: { key, agentId: "codex", visibility: "tree" },
    });
    expect(next.session.id).not.toBe(old.session.id);
    const heir = fixture.as(next.token);
    expect((await heir.listRuns({ query: { all: "1", hidden: "1" } })).runs).toEqual([]);
    expect((await heir.listRuns({ query: { session: key } })).runs).toEqual([]);
    expect(await errorOf(heir.getRun({ params: run }))).toMatchObject({ code: "RUN_NOT_FOUND" });
    expect(await errorOf(heir.kill({ params: run }))).toMatchObject({ code: "RUN_NOT_FOUND" });
    expect((await heir.sessionHistory({ params: { id: key } })).messages).toEqual([]);
    expect(await heir.sessionStatus({ params: { id: key } })).toMatchObject({
      state: "idle",
      runs: [],
      messages: { total: 0, pending: 0 },
    });
    for (const id of [old.session.id, child.session.id, "child"])
      expect(await errorOf(heir.sessionHistory({ params: { id } }))).toEqual({
        code: "NOT_FOUND",
        message: `there is no session ${id}; \`holdfast sessions list --all\` lists all`,
      });
    const { sessions } = await heir.listSessions({ query: { all: "1" } });
    expect(sessions.map(({ id }) => id)).toEqual([next.session.id]);
    expect((await fixture.client.listApprovals()).approvals).toEqual([]);
    // Records of the old session are still visible to the operator.
    const { messages } = await fixture.client.sessionHistory({ params: { id: old.session.id } });
    expect(messages.map(({ text }) => text)).toEqual(["for the old one"]);
    expect(
      await errorOf(fixture.client.sendMessage({ params: { id: old.session.id }, body: { text: "late" } })),
    ).toMatchObject({ code: "SESSION_CLOSED" });
    await fixture.client.kill({ params: run });
  });

  test("the operator has no level of its own", async () => {
    for (const visibility of ["self", "tree", "agent"] as const)
      expect(await errorOf(fixture.client.listSessions({ query: { visibility } }))).toMatchObject({
        code: "BAD_INPUT",
      });
    await fixture.client.listSessions({ query: { visibility: "all" } });
  });
});
