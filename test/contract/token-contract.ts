import { describe, expect, test } from "vitest";
import type { Store } from "../../src/store/store.js";
import { EXITED, LEASE_MS, newRun } from "../support/store/run-samples.js";
import { AT, newSession, OPEN_SESSION } from "../support/store/session-samples.js";
import { type TestDatabase, twoSupervisors } from "../support/store/test-database.js";

/** The contract of every store for tokens of sessions. */
export function tokenContract(name: string, createDatabase: () => Promise<TestDatabase<Store>>): void {
  describe(`${name} store`, () => {
    let store: Store;
    let other: Store;

    twoSupervisors(createDatabase, (opened) => {
      ({ store, other } = opened);
    });

    test("a run's token ends when the end of its run is recorded, by whichever supervisor", async () => {
      const session = newSession();
      await store.createSession(session);
      const run = newRun({ sessionId: session.id });
      await store.issueToken(session.id, "of-run", AT, { ofRun: true });
      expect((await other.resolveToken("of-run", AT))?.id).toBe(session.id);
      const lease = await store.insertRun(run, LEASE_MS);
      expect(await store.bindToken("of-run", run.runId)).toBe(true);
      expect((await other.resolveToken("of-run", AT))?.id).toBe(session.id);
      await store.saveRun(lease, EXITED);
      expect(await other.resolveToken("of-run", AT)).toBeNull();
      expect(await other.deleteEndedTokens(AT)).toBe(1);
      expect(await other.deleteEndedTokens(AT)).toBe(0);
    });

    test("tokens of ended runs do not accumulate, and a token whose run was never started is removed", async () => {
      const session = newSession();
      await store.createSession(session);
      for (let at = 0; at < 50; at++) {
        await store.issueToken(session.id, `hash-${at}`, AT, { ofRun: true });
        const run = newRun({ sessionId: session.id });
        const lease = await store.insertRun(run, LEASE_MS);
        await store.bindToken(`hash-${at}`, run.runId);
        await store.saveRun(lease, EXITED);
      }
      await store.issueToken(session.id, "unused", AT, { ofRun: true });
      // Each new token removed those before it.
      expect(await store.deleteEndedTokens(AT)).toBe(0);
      expect((await store.resolveToken("unused", AT))?.id).toBe(session.id);
      expect(await store.deleteEndedTokens(AT + 2 * 3_600_000)).toBe(1);
      expect(await store.resolveToken("unused", AT)).toBeNull();
    });

    test("a token is invalid after its end; a rotation ends the other tokens, at once or later, except those of runs", async () => {
      const session = newSession();
      await store.createSession(session);
      await store.issueToken(session.id, "short", AT, { expiresAt: AT + 10 });
      expect((await other.resolveToken("short", AT + 9))?.id).toBe(session.id);
      expect(await other.resolveToken("short", AT + 10)).toBeNull();
      await store.issueToken(session.id, "old", AT);
      await store.issueToken(session.id, "of-run", AT, { ofRun: true });
      expect(await store.rotateTokens(session.id, "new", AT, { expiresAt: null, endAt: AT + 5 })).toBe(true);
      const alive = async (hash: string, now: number): Promise<boolean> =>
        (await other.resolveToken(hash, now)) !== null;
      expect([await alive("old", AT + 4), await alive("old", AT + 5)]).toEqual([true, false]);
      expect(await store.rotateTokens(session.id, "newest", AT, { expiresAt: AT + 9, endAt: AT })).toBe(true);
      expect([await alive("new", AT), await alive("short", AT), await alive("of-run", AT)]).toEqual([
        false,
        false,
        true,
      ]);
      expect([await alive("newest", AT + 8), await alive("newest", AT + 9)]).toEqual([true, false]);
      expect(await store.deleteEndedTokens(AT + 9)).toBe(1);
      await store.closeSession(session.id, "cli:ada", AT);
      expect(await store.rotateTokens(session.id, "late", AT, { expiresAt: null, endAt: AT })).toBe(false);
    });

    test("a token acts for its session until it is revoked", async () => {
      const session = newSession();
      await store.createSession(session);
      expect(await store.issueToken(session.id, "hash-1", AT)).toBe(true);
      expect(await store.issueToken(session.id, "hash-2", AT)).toBe(true);
      expect(await other.resolveToken("hash-1", AT)).toEqual({
        ...session,
        ...OPEN_SESSION,
      });
      expect(await other.revokeToken("hash-1")).toBe(true);
      expect(await other.revokeToken("hash-1")).toBe(false);
      expect(await store.resolveToken("hash-1", AT)).toBeNull();
      expect((await store.resolveToken("hash-2", AT))?.id).toBe(session.id);
      expect(await store.resolveToken("hash-3", AT)).toBeNull();
    });

    test("tokens end with their session, and a later session with the same key does not revive them", async () => {
      const session = newSession({ key: "main" });
      await store.createSession(session);
      await store.issueToken(session.id, "hash", AT);
      await other.closeSession(session.id, "a", AT + 1);
      await store.createSession(newSession({ key: "main" }));
      expect(await store.resolveToken("hash", AT)).toBeNull();
      expect(await store.issueToken(session.id, "another", AT)).toBe(false);
      expect(await store.issueToken("ses_none", "another", AT)).toBe(false);
      expect(await store.revokeToken("hash")).toBe(false);
    });
  });
}
