import { describe, expect, test } from "vitest";
import type { Store } from "../../src/store/store.js";
import { AT, newApproval, newSession } from "../support/store/session-samples.js";
import { type TestDatabase, twoSupervisors } from "../support/store/test-database.js";

const allowed = { verdict: "allow", actor: "cli:ada", at: AT + 5 } as const;
const denied = { verdict: "deny", actor: "cli:bob", at: AT + 6 } as const;

/** The contract of every store for approvals. */
export function approvalContract(name: string, createDatabase: () => Promise<TestDatabase<Store>>): void {
  describe(`${name} store`, () => {
    let store: Store;
    let other: Store;
    twoSupervisors(createDatabase, (opened) => {
      ({ store, other } = opened);
    });

    test("an inserted approval is pending and read complete", async () => {
      const session = newSession();
      await store.createSession(session);
      for (const approval of [newApproval(session.id), newApproval(session.id, { rule: null })]) {
        expect(await store.insertApproval(approval)).toBe(true);
        expect(await other.getApproval(approval.id)).toEqual({ ...approval, decision: null });
      }
      expect(await store.getApproval("apr_none")).toBeNull();
      expect(await store.insertApproval(newApproval("ses_none"))).toBe(false);
    });

    test("an approval is decided exactly once", async () => {
      const session = newSession();
      await store.createSession(session);
      const approval = newApproval(session.id);
      await store.insertApproval(approval);
      const [first, second] = await Promise.all([
        store.decideApproval(approval.id, allowed),
        other.decideApproval(approval.id, denied),
      ]);
      expect(first).not.toBe(second);
      const decision = first ? allowed : denied;
      expect(await store.expireApprovals([approval.id], "time", AT + 9)).toEqual([]);
      expect(await store.getApproval(approval.id)).toEqual({ ...approval, decision });
      expect(await store.decideApproval("apr_none", allowed)).toBe(false);
    });

    test("only pending approvals expire, and a decision that comes later is refused", async () => {
      const session = newSession();
      await store.createSession(session);
      const [late, decided] = [newApproval(session.id), newApproval(session.id)];
      await store.insertApproval(late);
      await store.insertApproval(decided);
      await store.decideApproval(decided.id, denied);
      const expired = await other.expireApprovals([late.id, decided.id, "apr_none"], "time", AT + 9);
      expect(expired).toEqual([late.id]);
      expect(await store.decideApproval(late.id, allowed)).toBe(false);
      expect((await store.getApproval(late.id))?.decision).toEqual({
        verdict: "expired",
        actor: "time",
        at: AT + 9,
      });
      expect((await store.getApproval(decided.id))?.decision).toEqual(denied);
    });

    test("closing a session expires its approvals and refuses new ones", async () => {
      const [session, bystander] = [newSession(), newSession()];
      for (const each of [session, bystander]) await store.createSession(each);
      const [asked, decided] = [newApproval(session.id), newApproval(session.id)];
      const innocent = newApproval(bystander.id);
      for (const each of [asked, decided, innocent]) await store.insertApproval(each);
      await store.decideApproval(decided.id, allowed);
      await store.closeSession(session.id, "cli:ada", AT + 7);
      expect((await other.getApproval(asked.id))?.decision).toEqual({
        verdict: "expired",
        actor: "cli:ada",
        at: AT + 7,
      });
      expect((await other.getApproval(decided.id))?.decision).toEqual(allowed);
      expect((await other.getApproval(innocent.id))?.decision).toBeNull();
      expect(await store.insertApproval(newApproval(session.id))).toBe(false);
    });

    test("approvals are listed oldest first, by state, session and gateway, and deleted when decided", async () => {
      const [one, two] = [newSession(), newSession()];
      for (const each of [one, two]) await store.createSession(each);
      const a = newApproval(one.id, { askedAt: AT + 2 });
      const b = newApproval(two.id, { askedAt: AT + 1, gatewayInstanceId: "in_2" });
      const c = newApproval(two.id, { askedAt: AT });
      for (const each of [a, b, c]) await store.insertApproval(each);
      await store.decideApproval(c.id, allowed);
      const ids = async (filter: Parameters<Store["listApprovals"]>[0]): Promise<string[]> =>
        (await other.listApprovals(filter)).map(({ id }) => id);
      expect(await ids({})).toEqual([c.id, b.id, a.id]);
      expect(await ids({ pending: true })).toEqual([b.id, a.id]);
      expect(await ids({ pending: false })).toEqual([c.id]);
      expect(await ids({ sessionId: two.id })).toEqual([c.id, b.id]);
      expect(await ids({ gatewayInstanceId: "in_2" })).toEqual([b.id]);
      expect(await ids({ limit: 1 })).toEqual([c.id]);
      expect(await ids({ newestFirst: true, limit: 2 })).toEqual([a.id, b.id]);
      expect(await store.deleteDecidedApprovals(allowed.at)).toBe(0);
      expect(await store.deleteDecidedApprovals(allowed.at + 1)).toBe(1);
      expect(await ids({})).toEqual([b.id, a.id]);
    });

    test("the approvals of a session are deleted with it", async () => {
      const session = newSession({ lineage: [] });
      await store.createSession(session);
      const approval = newApproval(session.id);
      await store.insertApproval(approval);
      await store.closeSession(session.id, "a", AT + 1);
      expect(await store.deleteClosedSessions(AT + 2)).toBe(1);
      expect(await store.getApproval(approval.id)).toBeNull();
    });
  });
}
