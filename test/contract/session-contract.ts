import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canSeeSessionRow, visibleSessions } from "../../src/sessions/visibility.js";
import { VISIBILITIES } from "../../src/model/enums.js";
import type { RunFilter } from "../../src/store/runs/contract.js";
import type { Store } from "../../src/store/store.js";
import { LEASE_MS, newRunEvent, newRun } from "../support/store/run-samples.js";
import { newTask } from "../support/store/task-samples.js";
import { AT, newSession, OPEN_SESSION } from "../support/store/session-samples.js";
import { type TestDatabase, twoSupervisors } from "../support/store/test-database.js";

/** The contract of every store for sessions. */
export function sessionContract(name: string, createDatabase: () => Promise<TestDatabase<Store>>): void {
  describe(`${name} store`, () => {
    let store: Store;
    let other: Store;

    twoSupervisors(createDatabase, (opened) => {
      ({ store, other } = opened);
    });

    test("a created session is read complete by every store", async () => {
      for (const session of [
        newSession(),
        newSession({
          agentId: null,
          ownerSessionKey: null,
          spawnedBy: null,
          parentSessionKey: null,
          lineage: [],
          backend: null,
          interactionMode: "run",
          sandboxed: false,
          visibility: "self",
          execRules: [],
        }),
      ]) {
        const row = { ...session, ...OPEN_SESSION };
        expect(await store.createSession(session)).toEqual({ session: row, created: true });
        expect(await other.getSession(session.id)).toEqual(row);
        expect(await other.getSessionByKey(session.key)).toEqual(row);
      }
    });

    test("a scope in SQL holds exactly the sessions, runs and events that canSeeSessionRow shows", async () => {
      const agentId = fc.constantFrom("codex", "claude", "gemini", null);
      const ids = Array.from({ length: 24 }, (_, at) => `ses_${at}`);
      const lineage = fc.uniqueArray(fc.constantFrom(...ids), { maxLength: 4 });
      const facts = fc.sample(fc.record({ agentId, lineage }), ids.length);
      const rows = facts.map(({ agentId: agent, lineage: lines }, at) =>
        newSession({
          id: ids[at] ?? "",
          key: `key ${at}`,
          agentId: agent,
          lineage: lines,
          createdAt: AT + at,
        }),
      );
      const ofSession = new Map<string, string | null>();
      for (const row of rows) {
        await store.createSession(row);
        if (rows.indexOf(row) % 3 === 0) await store.closeSession(row.id, "cli:ada", AT + 100);
      }
      for (const sessionId of [...ids, ...ids, "ses_unknown", null]) {
        const run = newRun({ sessionId });
        await store.insertRun(run, LEASE_MS, [newRunEvent(run.runId, AT)]);
        ofSession.set(run.runId, sessionId);
      }
      const policy = fc.record({
        enabled: fc.boolean(),
        allow: fc.array(
          fc.record({
            from: fc.constantFrom("codex", "claude", "*"),
            to: fc.constantFrom("codex", "claude", "gemini", "*"),
          }),
          { maxLength: 3 },
        ),
      });
      const request = fc.record({
        requester: fc.record({ id: fc.constantFrom(...ids), agentId }),
        visibility: fc.constantFrom(...VISIBILITIES),
        a2aPolicy: policy,
        sandboxed: fc.boolean(),
      });
      await fc.assert(
        fc.asyncProperty(request, async (asked) => {
          const scope = visibleSessions(asked);
          const seen = new Set(
            rows.filter((row) => canSeeSessionRow({ ...asked, row }).visible).map(({ id }) => id),
          );
          const listed = await other.listSessions({ seenBy: scope });
          expect(new Set(listed.map(({ id }) => id))).toEqual(seen);
          const runs = [...ofSession.keys()].filter((runId) => seen.has(ofSession.get(runId) ?? ""));
          const listedRuns = await other.listRuns({ seenBy: scope });
          expect(new Set(listedRuns.map(({ runId }) => runId))).toEqual(new Set(runs));
          const events = await other.listScopedEvents(scope, {});
          expect(events).toHaveLength(ofSession.size);
          const shown = events.filter(({ type }) => type !== "hidden");
          expect(shown.map(({ runId }) => runId)).toEqual(runs);
        }),
      );
    });

    test("a page of runs stays within its size, and the next page continues after it", async () => {
      const runs = Array.from({ length: 7 }, (_, at) =>
        newRun({ createdAt: AT + at, labels: { large: "x".repeat(at === 3 ? 100_000 : 10_000) } }),
      );
      for (const run of runs) await store.insertRun(run, LEASE_MS);
      const pages: string[][] = [];
      for (let after: RunFilter["after"]; ;) {
        const page = await other.listRuns({
          ...(after === undefined ? {} : { after }),
          limit: 5,
          maxBytes: 25_000,
        });
        if (page.length === 0) break;
        pages.push(page.map(({ runId }) => runId));
        after = page.at(-1);
      }
      expect(pages.flat()).toEqual(runs.map(({ runId }) => runId).toReversed());
      expect(pages.map(({ length }) => length)).toEqual([2, 1, 1, 2, 1]);
    });

    test("runs are listed without their labels, and otherwise as they are", async () => {
      const run = newRun({ createdAt: AT, labels: { some: "label" } });
      await store.insertRun(run, LEASE_MS);
      const [whole] = await other.listRuns({ sessionId: run.sessionId ?? "" });
      const [without] = await other.listRuns({ sessionId: run.sessionId ?? "", withoutLabels: true });
      expect(whole?.labels).toEqual({ some: "label" });
      expect(without).toEqual({ ...whole, labels: {} });
    });

    test("a key has one open session: a second creation returns the first, unchanged", async () => {
      const first = newSession({ key: "main" });
      await store.createSession(first);
      const answer = await other.createSession(newSession({ key: "main", visibility: "all" }));
      expect(answer).toEqual({ session: { ...first, ...OPEN_SESSION }, created: false });
      expect(await store.listSessions({})).toHaveLength(1);
    });

    test("a closed session frees its key and keeps its record", async () => {
      const first = newSession({ key: "main" });
      await store.createSession(first);
      expect(await store.closeSession(first.id, "cli:ada", AT + 1)).toBe(true);
      expect(await other.getSessionByKey("main")).toBeNull();
      expect(await other.getSession(first.id)).toEqual({
        ...first,
        ...OPEN_SESSION,
        closedAt: AT + 1,
        closedBy: "cli:ada",
      });
      const second = newSession({ key: "main" });
      expect(await other.createSession(second)).toMatchObject({ created: true, session: { id: second.id } });
    });

    test("a session is closed once; the first time stands", async () => {
      const session = newSession();
      await store.createSession(session);
      expect(await store.closeSession(session.id, "a", AT + 1)).toBe(true);
      expect(await other.closeSession(session.id, "b", AT + 2)).toBe(false);
      expect(await store.closeSession("ses_none", "b", AT + 2)).toBe(false);
      expect((await store.getSession(session.id))?.closedAt).toBe(AT + 1);
    });

    test("the actor and reason of a close are recorded, and those of the actor that began to close stay", async () => {
      const [one, two] = [newSession(), newSession()];
      for (const each of [one, two]) await store.createSession(each);
      await store.closeSession(one.id, "a", AT + 1, "done");
      await store.recordSessionClosing(two.id, "b", "superseded");
      await other.recordSessionClosing(two.id, "c", "again");
      expect(await other.getSession(two.id)).toMatchObject({ closedAt: null, closedBy: "b" });
      await other.closeSession(two.id, "gateway restarted", AT + 2);
      expect(await other.getSession(one.id)).toMatchObject({ closedBy: "a", closeReason: "done" });
      expect(await other.getSession(two.id)).toMatchObject({
        closedAt: AT + 2,
        closedBy: "b",
        closeReason: "superseded",
      });
      await store.recordSessionClosing(one.id, "late", "late");
      expect(await other.getSession(one.id)).toMatchObject({ closedBy: "a", closeReason: "done" });
    });

    test("the agent's session id is set while the session is open, and finds the session", async () => {
      const [session, other1] = [newSession({ backend: "cli" }), newSession({ backend: "cli" })];
      for (const each of [session, other1]) await store.createSession(each);
      expect(await store.setAgentSessionId(session.id, "thread-1")).toBe(true);
      expect(await store.setAgentSessionId("ses_none", "thread-1")).toBe(false);
      expect((await other.getSession(session.id))?.agentSessionId).toBe("thread-1");
      const found = await other.listSessions({ backend: "cli", agentSessionId: "thread-1" });
      expect(found.map(({ id }) => id)).toEqual([session.id]);
      await store.closeSession(session.id, "a", AT + 1);
      expect(await store.setAgentSessionId(session.id, "thread-2")).toBe(false);
      expect((await other.getSession(session.id))?.agentSessionId).toBe("thread-1");
    });

    test("sessions are listed newest first, by state, agent and key", async () => {
      const old = newSession({ key: "k", createdAt: AT });
      await store.createSession(old);
      await store.closeSession(old.id, "a", AT + 1);
      const young = newSession({ key: "k", createdAt: AT + 2 });
      const stranger = newSession({ agentId: "claude", createdAt: AT + 1 });
      await store.createSession(young);
      await store.createSession(stranger);
      const ids = async (filter: Parameters<Store["listSessions"]>[0]): Promise<string[]> =>
        (await other.listSessions(filter)).map(({ id }) => id);
      expect(await ids({})).toEqual([young.id, stranger.id, old.id]);
      expect(await ids({ limit: 1 })).toEqual([young.id]);
      expect(await ids({ open: true })).toEqual([young.id, stranger.id]);
      expect(await ids({ open: false })).toEqual([old.id]);
      expect(await ids({ agentId: "claude" })).toEqual([stranger.id]);
      expect(await ids({ key: "k" })).toEqual([young.id, old.id]);
    });

    test("an abbreviation is the last part or the beginning of a key, or the beginning of an id, and no pattern", async () => {
      const named = [];
      for (const key of ["site", "team/site", "sitemap", "Site", "s_te", "🐟/ä-key"]) {
        const session = newSession({ key });
        named.push(session);
        await store.createSession(session);
      }
      const [site, child, map, , , fish] = named;
      const ids = async (abbreviation: string): Promise<Set<string | undefined>> =>
        new Set((await other.listSessions({ abbreviation })).map(({ id }) => id));
      expect(await ids("site")).toEqual(new Set([site?.id, child?.id, map?.id]));
      expect(await ids("%site")).toEqual(new Set());
      expect(await ids("🐟/ä")).toEqual(new Set([fish?.id]));
      expect(await ids("ä-key")).toEqual(new Set([fish?.id]));
      expect(await ids(child?.id.slice(0, -1) ?? "")).toEqual(new Set([child?.id]));
      expect(await ids(child?.id.slice("ses_".length, -1) ?? "")).toEqual(new Set([child?.id]));
    });

    test("a closed session is kept while a run, a task or a remaining session refers to it", async () => {
      const parent = newSession({ lineage: [] });
      const child = newSession({ lineage: [parent.id] });
      const withRun = newSession({ key: "with run", lineage: [] });
      const open = newSession({ lineage: [] });
      const asked = newSession({ lineage: [] });
      const did = newSession({ lineage: [] });
      for (const each of [parent, child, withRun, open, asked, did]) await store.createSession(each);
      await store.insertTask(newTask({ ownerSessionId: asked.id, childSessionId: did.id }), []);
      await store.closeSession(asked.id, "a", AT + 1);
      await store.closeSession(did.id, "a", AT + 1);
      await store.insertRun(newRun({ sessionKey: "with run", sessionId: withRun.id }), LEASE_MS);
      await store.closeSession(parent.id, "a", AT + 1);
      await store.closeSession(withRun.id, "a", AT + 1);
      expect(await store.deleteClosedSessions(AT + 10)).toBe(0);
      await store.closeSession(child.id, "a", AT + 11);
      expect(await store.deleteClosedSessions(AT + 10)).toBe(0);
      expect(await other.deleteClosedSessions(AT + 12)).toBe(2);
      const left = (await store.listSessions({})).map(({ id }) => id);
      expect(new Set(left)).toEqual(new Set([withRun.id, open.id, asked.id, did.id]));
    });
  });
}
