import { describe, expect, test } from "vitest";
import type { AcpTurn } from "../../src/model/acp/session-and-turn.js";
import type { Store } from "../../src/store/store.js";
import {
  AT,
  newAcpPermission,
  newAcpSession,
  newAcpTurn,
  newRememberedRule,
  newSession,
} from "../support/store/session-samples.js";
import { type TestDatabase, twoSupervisors } from "../support/store/test-database.js";

/** The contract of every store for ACP sessions. */
export function acpContract(name: string, createDatabase: () => Promise<TestDatabase<Store>>): void {
  describe(`${name} store of ACP sessions`, () => {
    let store: Store;
    let id: string;
    twoSupervisors(createDatabase, async (opened) => {
      ({ store } = opened);
      ({ id } = (await store.createSession(newSession())).session);
      await store.insertAcpSession(newAcpSession(id));
    });

    const ended = { state: "ended", endedAt: AT + 9, outcome: "completed" } as const;

    test("a session is read as it was written, and is found by its run", async () => {
      expect(await store.getAcpSession(id)).toEqual(newAcpSession(id));
      expect(await store.listAcpSessions({ runId: "run_1", open: true })).toEqual([newAcpSession(id)]);
      expect(await store.listAcpSessions({ open: false })).toEqual([]);
      const session = { argv: null, agent: null, tmpdir: null, sending: null, pending: [] };
      expect(await store.commitAcpChange(id, "in_1", { session })).toBe(0);
      expect(await store.getAcpSession(id)).toMatchObject(session);
    });

    test("a session is inserted once, and a second insert is refused", async () => {
      expect(await store.insertAcpSession(newAcpSession(id, { gatewayInstanceId: "in_2" }))).toBe(false);
      expect(await store.getAcpSession(id)).toEqual(newAcpSession(id));
    });

    test("rules are remembered for a session and an agent, with a decision or alone, and revoked once", async () => {
      const answered = { permissionId: "prm_1", inputDigest: "ab12" };
      const rule = newRememberedRule({ id: "prl_1", scope: "session", sessionId: id, ...answered });
      await store.commitAcpChange(id, "in_1", { newRule: rule });
      const agents = newRememberedRule({ id: "prl_2", scope: "agent", agent: "codex", createdAt: AT + 1 });
      await store.insertRememberedRule(agents);
      expect(await store.getRememberedRule("prl_1")).toEqual(rule);
      expect(await store.listRememberedRules({ appliesTo: { sessionId: id, agent: "codex" } })).toEqual([
        agents,
        rule,
      ]);
      expect(await store.listRememberedRules({ appliesTo: { sessionId: id, agent: null } })).toEqual([rule]);
      expect(await store.listRememberedRules({ agent: "codex" })).toEqual([agents]);
      expect(await store.revokeRememberedRule("prl_2", "ada", AT)).toBe(true);
      expect(await store.revokeRememberedRule("prl_2", "bob", AT)).toBe(false);
      expect(await store.listRememberedRules({ agent: "codex" })).toEqual([]);
      const revoked = { ...agents, revokedAt: AT, revokedBy: "ada" };
      expect(await store.listRememberedRules({ agent: "codex", revoked: true })).toEqual([revoked]);
      expect(await store.revokeRememberedRule("prl_none", "ada", AT)).toBe(false);
    });

    test("only the gateway that has a session writes it", async () => {
      const change = { session: { end: 99 }, newTurn: newAcpTurn("turn_1") };
      expect(await store.commitAcpChange(id, "in_2", change)).toBeNull();
      expect(await store.getAcpSession(id)).toMatchObject({ end: 17 });
      expect(await store.listAcpTurns({ sessionId: id })).toEqual([]);
      expect(await store.commitAcpChange(id, "in_1", { session: { gatewayInstanceId: "in_2" } })).toBe(0);
      expect(await store.commitAcpChange(id, "in_1", change)).toBeNull();
      expect(await store.commitAcpChange(id, "in_2", change)).toBe(0);
      const { version = 0 } = (await store.getAcpSession(id)) ?? {};
      expect(await store.commitAcpChange(id, "in_2", { version: version - 1 })).toBeNull();
      expect(await store.commitAcpChange(id, "in_2", { version })).toBe(0);
    });

    test("turns keep their order, one runs at a time, and an end is final", async () => {
      for (const turnId of ["turn_b", "turn_a"])
        await store.commitAcpChange(id, "in_1", { newTurn: newAcpTurn(turnId) });
      const turns = await store.listAcpTurns({ sessionId: id });
      expect(await store.listAcpTurns({ sessionId: id, after: turns[0]?.place ?? 0 })).toEqual(
        turns.slice(1),
      );
      expect(turns.map(({ turnId, ordinal, state }) => [turnId, ordinal, state])).toEqual([
        ["turn_b", 1, "queued"],
        ["turn_a", 2, "queued"],
      ]);
      const begin = (turnId: string) =>
        ({ turnId, from: "queued", set: { state: "running", startedAt: AT, requestId: 7 } }) as const;
      expect(await store.commitAcpChange(id, "in_1", { turns: [begin("turn_b")] })).toBe(0);
      await expect(store.commitAcpChange(id, "in_1", { turns: [begin("turn_a")] })).rejects.toThrow();
      // An existing turn is not written again, nor the rest of the change.
      const again = { newTurn: newAcpTurn("turn_a"), session: { end: 1_000 } };
      expect(await store.commitAcpChange(id, "in_1", again)).toBeNull();
      const set: Partial<AcpTurn> = {
        ...ended,
        stopReason: "end_turn",
        problem: { code: "X", message: "y" },
        text: "done",
        toolCalls: [{ id: "t", title: "ls", kind: "execute", status: "completed" }],
        contextLost: true,
        before: ["1:2"],
        cancel: { actor: "ada", at: AT, reapTools: true },
        keptBytes: 5,
        droppedUpdates: 6,
      };
      const end = { turns: [{ turnId: "turn_b", from: "running", set } as const] };
      expect(await store.commitAcpChange(id, "in_1", end)).toBe(0);
      expect(await store.getAcpTurn("turn_b")).toMatchObject({ ...set, requestId: 7 });
      // A second end, together with something else: neither is written.
      expect(await store.commitAcpChange(id, "in_1", { ...end, session: { end: 1_000 } })).toBeNull();
      expect(await store.getAcpSession(id)).toMatchObject({ end: 17 });
      await expect(
        store.commitAcpChange(id, "in_1", {
          turns: [{ turnId: "turn_b", from: "ended", set: { text: "else" } }],
        }),
      ).rejects.toThrow(/never changes/);
      const audit = { at: AT, left: [], reaped: false, survivors: [], unknown: null };
      await store.commitAcpChange(id, "in_1", {
        turns: [{ turnId: "turn_b", from: "ended", set: { audit, stalledAt: AT, omittedChars: 7 } }],
      });
      expect(await store.getAcpTurn("turn_b")).toMatchObject({
        ...{ audit, stalledAt: AT, omittedChars: 7, noOutputTimeoutMs: 60_000 },
      });
    });

    test("updates are numbered without gaps, and written with their change or not at all", async () => {
      const update = (n: number) => ({ turnId: "turn_1", at: AT, type: "update", data: { n } }) as const;
      const many = Array.from({ length: 250 }, (_, n) => update(n));
      expect(await store.commitAcpChange(id, "in_1", { updates: many, session: { end: 20 } })).toBe(250);
      const lost = {
        updates: [update(-1)],
        turns: [{ turnId: "none", from: "queued", set: ended } as const],
      };
      expect(await store.commitAcpChange(id, "in_1", lost)).toBeNull();
      expect(await store.commitAcpChange(id, "in_1", { updates: [update(250)] })).toBe(251);
      const all = await store.listAcpUpdates({ sessionId: id });
      expect(all.map(({ seq, data }) => [seq, data])).toEqual(
        Array.from({ length: 251 }, (_, n) => [n + 1, { n }]),
      );
      expect(await store.listAcpUpdates({ sessionId: id, after: 249, limit: 1 })).toEqual([all[249]]);
      expect(await store.listAcpUpdates({ sessionId: id, turnId: "turn_2" })).toEqual([]);
      expect(await store.listAcpUpdates({ sessionId: id, type: "update" })).toEqual(
        all.filter(({ type }) => type === "update"),
      );
      expect(await store.listAcpUpdates({ sessionId: id, type: "client" })).toEqual([]);
      expect((await store.getAcpSession(id))?.seq).toBe(251);
    });

    test("updates of every kind and size keep their order, their numbers and their data", async () => {
      const odd = '\0 \uD800 {"}, \u2028 \\u0000';
      const large = { text: "é".repeat(400_000) };
      const numbers = { large: 1e21, small: -1.5e-7, whole: 2 ** 53, "": [[], {}, null, false], 2: 1, 1: 2 };
      const data = [{}, large, null, numbers, odd, large, 7, [1], { [odd]: odd }, large, large, large];
      const of = (turnId: string | null, type: "update" | "client", at: number) =>
        data.map((each) => ({ turnId, type, at, data: each }));
      const updates = [
        ...of("turn_1", "update", AT),
        ...Array.from({ length: 5 }, (_, n) => ({
          turnId: null,
          type: "update" as const,
          at: AT,
          data: { n },
        })),
        ...of(null, "client", AT + 1),
      ];
      await store.commitAcpChange(id, "in_1", { updates });
      const stored = await store.listAcpUpdates({ sessionId: id });
      expect(stored).toEqual(updates.map((update, index) => ({ sessionId: id, seq: index + 1, ...update })));
      expect(stored.map((each) => JSON.stringify(each.data))).toEqual(
        updates.map((each) => JSON.stringify(each.data)),
      );
    });

    test("a page of updates ends with the update that reaches the size, and always has the first", async () => {
      const update = (letters: string) => ({ turnId: null, at: AT, type: "update", data: letters }) as const;
      const sizes = [1_000_000, 10, 400, 600, 10, 2_000].map((letters) => update("é".repeat(letters / 2)));
      await store.commitAcpChange(id, "in_1", { updates: sizes });
      const page = async (after: number, maxBytes: number) =>
        (await store.listAcpUpdates({ sessionId: id, after, limit: 4, maxBytes })).map(({ seq }) => seq);
      expect(await page(0, 1)).toEqual([1]);
      expect(await page(1, 1_000)).toEqual([2, 3, 4]);
      expect(await page(1, 100_000)).toEqual([2, 3, 4, 5]);
      expect(await page(4, 1_000)).toEqual([5, 6]);
      expect(await page(6, 1_000)).toEqual([]);
    });

    test("a permission request is decided once", async () => {
      const permission = newAcpPermission(id, "prm_1");
      await store.commitAcpChange(id, "in_1", { newPermission: permission });
      expect(await store.listAcpPermissionRequests({ pending: true })).toEqual([permission]);
      const decision = { verdict: "deny", optionId: "no", actor: "ada", at: AT + 1 } as const;
      const decide = [{ id: "prm_1", decision }];
      expect(await store.commitAcpChange(id, "in_1", { decide })).toBe(0);
      const other = [{ id: "prm_1", decision: { ...decision, actor: "bob" } }];
      expect(await store.commitAcpChange(id, "in_1", { decide: other, session: { end: 50 } })).toBeNull();
      expect(await store.getAcpPermissionRequest("prm_1")).toEqual({ ...permission, decision });
      expect((await store.getAcpSession(id))?.end).toBe(17);
      expect(await store.listAcpPermissionRequests({ sessionId: id, answered: false })).toHaveLength(1);
      await store.commitAcpChange(id, "in_1", { answered: ["prm_1"] });
      expect(await store.listAcpPermissionRequests({ sessionId: id, answered: false })).toEqual([]);
      const later = { ...newAcpPermission(id, "prm_2"), askedAt: permission.askedAt + 1 };
      await store.commitAcpChange(id, "in_1", { newPermission: later });
      const newest = await store.listAcpPermissionRequests({ newestFirst: true });
      expect(newest.map((each) => each.id)).toEqual(["prm_2", "prm_1"]);
    });

    test("updates of any text and size are stored", async () => {
      const odd = '\0 \uD800 {"}';
      const permission = {
        ...newAcpPermission(id, "prm_odd"),
        rpcId: odd,
        toolCallId: odd,
        kind: odd,
        title: odd,
        options: [{ optionId: odd, name: odd, kind: odd }],
      };
      const set: Partial<AcpTurn> = {
        ...ended,
        requestId: 2 ** 52,
        keptBytes: 2 ** 52,
        text: odd,
        toolCalls: [{ id: odd, title: odd, kind: odd, status: odd }],
      };
      const session = { end: 2 ** 52, agentSessionId: odd, capabilities: { [odd]: odd } };
      await store.commitAcpChange(id, "in_1", {
        session,
        newTurn: newAcpTurn("turn_1"),
        newPermission: permission,
        updates: [{ turnId: "turn_1", at: AT, type: "update", data: { [odd]: odd } }],
      });
      await store.commitAcpChange(id, "in_1", { turns: [{ turnId: "turn_1", from: "queued", set }] });
      expect(await store.getAcpTurn("turn_1")).toMatchObject({
        requestId: 2 ** 52,
        toolCalls: set.toolCalls,
      });
      expect(await store.getAcpSession(id)).toMatchObject({
        end: 2 ** 52,
        capabilities: session.capabilities,
      });
      const { rpcId, options } = (await store.getAcpPermissionRequest("prm_odd")) ?? {};
      expect({ rpcId, options }).toEqual({ rpcId: odd, options: permission.options });
      expect(await store.listAcpUpdates({ sessionId: id })).toMatchObject([{ data: { [odd]: odd } }]);
    });

    test("updates of old turns are deleted, their results stay; a deleted session deletes all of its records", async () => {
      const begin = { state: "running", startedAt: AT } as const;
      await store.commitAcpChange(id, "in_1", {
        newTurn: newAcpTurn("turn_1"),
        updates: [{ turnId: "turn_1", at: AT, type: "update", data: null }],
        newPermission: newAcpPermission(id, "prm_1"),
      });
      await store.commitAcpChange(id, "in_1", { turns: [{ turnId: "turn_1", from: "queued", set: begin }] });
      expect(await store.deleteAcpUpdates(AT + 1_000)).toBe(0);
      await store.commitAcpChange(id, "in_1", { turns: [{ turnId: "turn_1", from: "running", set: ended }] });
      expect(await store.deleteAcpUpdates(AT + 9)).toBe(0);
      expect(await store.deleteAcpUpdates(AT + 10)).toBe(1);
      expect(await store.getAcpTurn("turn_1")).toMatchObject({ state: "ended" });
      await store.commitAcpChange(id, "in_1", { session: { state: "closed", closedAt: AT } });
      await expect(store.commitAcpChange(id, "in_1", { session: { end: 1 } })).rejects.toThrow(
        /never changes/,
      );
      await store.closeSession(id, "test", AT);
      expect(await store.deleteClosedSessions(AT + 1)).toBe(1);
      expect(await store.getAcpSession(id)).toBeNull();
      expect(await store.getAcpTurn("turn_1")).toBeNull();
      expect(await store.getAcpPermissionRequest("prm_1")).toBeNull();
    });
  });
}
