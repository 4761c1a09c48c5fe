import { describe, expect, test } from "vitest";
import type { NewMessage, SessionMessage } from "../../src/model/session-message.js";
import type { Store } from "../../src/store/store.js";
import { AT, newAcpSession, newAcpTurn, newMessage, newSession } from "../support/store/session-samples.js";
import { type TestDatabase, twoSupervisors } from "../support/store/test-database.js";

const bounds = { bytes: 1_000_000, messages: 1_000, pending: 100 };

/** The contract of every store for messages of sessions. */
export function messageContract(name: string, createDatabase: () => Promise<TestDatabase<Store>>): void {
  describe(`${name} store: messages`, () => {
    let store: Store;
    let other: Store;
    let id: string;
    twoSupervisors(createDatabase, async (opened) => {
      ({ store, other } = opened);
      ({ id } = (await store.createSession(newSession({ lineage: [] }))).session);
    });

    async function say(change: Partial<NewMessage> = {}, on = store): Promise<SessionMessage> {
      const said = await on.appendMessage(newMessage(id, change), bounds);
      if (typeof said === "string") throw new Error(said);
      return said;
    }
    const texts = async (filter: Partial<Parameters<Store["listMessages"]>[1]> = {}): Promise<string[]> =>
      (await other.listMessages(id, { limit: 100, ...filter })).map(({ text }) => text);

    test("an appended message is read complete by every store", async () => {
      const first = newMessage(id, { cause: "c" });
      const second = newMessage(id, {
        role: "system",
        fromSessionId: null,
        runId: null,
        text: "",
        deliveredAt: AT + 3,
      });
      expect(await store.appendMessage(first, bounds)).toEqual({ ...first, seq: 1 });
      expect(await other.appendMessage(second, bounds)).toEqual({ ...second, seq: 2 });
      expect(await other.listMessages(id, { limit: 9 })).toEqual([
        { ...first, seq: 1 },
        { ...second, seq: 2 },
      ]);
    });

    test("a message goes with one turn, and is delivered with its end", async () => {
      await store.insertAcpSession(newAcpSession(id));
      const [first, second] = [await say(), await say({ deliver: "next-turn", cause: "why" })];
      expect(await other.listMessages(id, { cause: "why", limit: 9 })).toEqual([second]);
      const { turnId } = newAcpTurn("turn_1");
      const take = { turnId, messages: [first.id] };
      expect(await store.commitAcpChange(id, "in_1", { newTurn: newAcpTurn(turnId), take })).not.toBeNull();
      // A turn has its place among the messages.
      expect(await other.listAcpTurns({ sessionId: id })).toMatchObject([
        { turnId, place: 3, timeoutMs: 5_000 },
      ]);
      expect(await other.listAcpTurns({ sessionId: id, before: 3 })).toEqual([]);
      expect(await other.listAcpTurns({ sessionId: id, after: 2 })).toHaveLength(1);
      expect(await say()).toHaveProperty("seq", 4);
      expect(await other.listMessages(id, { pending: true, deliver: "next-turn", limit: 9 })).toEqual([
        second,
      ]);
      expect(await other.listMessages(id, { pending: true, deliver: "wake", limit: 9 })).toMatchObject([
        { seq: 4 },
      ]);
      const its = { ...newAcpTurn("turn_3"), place: first.seq };
      await store.commitAcpChange(id, "in_1", { newTurn: its });
      expect(await other.listAcpTurns({ sessionId: id })).toMatchObject([{ turnId: "turn_3" }, { turnId }]);
      const again = {
        newTurn: newAcpTurn("turn_2"),
        take: { turnId: "turn_2", messages: [second.id, first.id] },
      };
      expect(await store.commitAcpChange(id, "in_1", again)).toBeNull();
      expect(await other.listMessages(id, { pending: true, deliver: "next-turn", limit: 9 })).toEqual([
        second,
      ]);
      expect(await other.countMessages(id)).toMatchObject({ total: 3, pending: 3, undelivered: 0 });
      const ended = { state: "ended", endedAt: AT, outcome: "completed" } as const;
      const turns = [{ turnId, from: "queued", set: ended }] as const;
      await store.commitAcpChange(id, "in_1", { turns });
      expect(await other.countMessages(id)).toMatchObject({ total: 3, pending: 2, undelivered: 1 });
      await store.commitAcpChange(id, "in_1", { delivered: { turnId, at: AT + 9 } });
      expect(await other.countMessages(id)).toMatchObject({ total: 3, pending: 2, undelivered: 0 });
      expect((await other.listMessages(id, { limit: 9 }))[0]).toEqual({
        ...first,
        turnId,
        deliveredAt: AT + 9,
      });
    });

    test("a notice whose turn ends without an answer waits again; a message of a person does not", async () => {
      await store.insertAcpSession(newAcpSession(id));
      const notice = { role: "system", deliver: "next-turn" } as const;
      const [first, second] = [await say({ ...notice, text: "one" }), await say({ ...notice, text: "two" })];
      const said = await say({ deliver: "next-turn", text: "said" });
      const send = async (turnId: string, messages: readonly string[]): Promise<void> => {
        const newTurn = newAcpTurn(turnId);
        expect(
          await store.commitAcpChange(id, "in_1", { newTurn, take: { turnId, messages } }),
        ).not.toBeNull();
      };
      const end = (turnId: string, outcome: "interrupted" | "completed") => ({
        turns: [{ turnId, from: "queued", set: { state: "ended", endedAt: AT, outcome } }] as const,
      });
      await send("turn_1", [first.id, second.id, said.id]);
      expect(await texts({ pending: true })).toEqual([]);
      expect(await store.deliverMessages(id, [first.id, said.id], AT)).toEqual([]);
      // A message that is being delivered is kept, whatever is added meanwhile.
      await store.appendMessage(newMessage(id, { deliveredAt: AT, text: "x".repeat(99) }), {
        ...bounds,
        bytes: 10,
      });
      expect(await store.deleteSettledMessages(AT + 1)).toBeGreaterThan(0);
      expect(await texts()).toEqual(["one", "two"]);
      await store.commitAcpChange(id, "in_1", end("turn_1", "interrupted"));
      expect(await other.listMessages(id, { pending: true, limit: 9 })).toEqual([
        { ...first, inVain: 1 },
        { ...second, inVain: 1 },
      ]);
      expect(await other.countMessages(id)).toMatchObject({ pending: 2, undelivered: 0 });
      const last = await say({ deliver: "next-turn", text: "last" });
      await send("turn_2", [first.id, last.id]);
      await store.commitAcpChange(id, "in_1", end("turn_2", "interrupted"));
      expect(await texts({ pending: true })).toEqual(["one", "two"]);
      expect(await other.countMessages(id)).toMatchObject({ pending: 2, undelivered: 1 });
      await send("turn_3", [first.id, second.id]);
      const delivered = { turnId: "turn_3", at: AT + 9 };
      await store.commitAcpChange(id, "in_1", { ...end("turn_3", "completed"), delivered });
      expect(await other.listMessages(id, { limit: 9 })).toEqual([
        { ...first, turnId: "turn_3", inVain: 2, deliveredAt: AT + 9 },
        { ...second, turnId: "turn_3", inVain: 1, deliveredAt: AT + 9 },
        { ...last, turnId: "turn_2" },
      ]);
    });

    test("a message that was read elsewhere makes no new turn, and a turn that takes it along continues", async () => {
      await store.insertAcpSession(newAcpSession(id));
      const [read, left] = [await say(), await say()];
      await store.deliverMessages(id, [read.id], AT);
      const [turnId, messages] = ["turn_1", [read.id, left.id]];
      const newTurn = newAcpTurn(turnId);
      expect(await store.commitAcpChange(id, "in_1", { newTurn, take: { turnId, messages } })).toBeNull();
      expect(await store.commitAcpChange(id, "in_1", { newTurn })).not.toBeNull();
      expect(await store.commitAcpChange(id, "in_1", { take: { turnId, messages } })).not.toBeNull();
      expect(await other.listMessages(id, { limit: 9 })).toEqual([
        { ...read, deliveredAt: AT },
        { ...left, turnId },
      ]);
    });

    test("concurrent messages through two connections get distinct places without gaps", async () => {
      const all = await Promise.all(
        Array.from({ length: 20 }, (_, at) => say({ text: String(at) }, at % 2 === 0 ? store : other)),
      );
      const places = all.map(({ seq }) => seq).toSorted((a, b) => a - b);
      expect(places).toEqual(Array.from({ length: 20 }, (_, at) => at + 1));
      const read = await other.listMessages(id, { limit: 100 });
      expect(read.map(({ seq }) => seq)).toEqual(places);
    });

    test("messages with one cause are written once, also concurrently", async () => {
      const both = await Promise.all([
        say({ cause: "turn-1", text: "one" }),
        say({ cause: "turn-1", text: "two" }, other),
      ]);
      expect(both[0]).toEqual(both[1]);
      expect(await texts()).toEqual([both[0].text]);
      expect((await say({ cause: "turn-2" })).seq).toBe(2);
    });

    test("pages: the newest, those before one, those after one", async () => {
      for (const text of ["a", "b", "c", "d"]) await say({ text });
      expect(await texts({ limit: 2 })).toEqual(["c", "d"]);
      expect(await texts({ limit: 2, before: 3 })).toEqual(["a", "b"]);
      expect(await texts({ limit: 2, after: 1 })).toEqual(["b", "c"]);
      expect(await texts({ after: 4 })).toEqual([]);
      expect(await store.listMessages("ses_none", { limit: 9 })).toEqual([]);
    });

    test("a waiting message is delivered once, and to its own session only", async () => {
      const [one, two] = [await say({ text: "1" }), await say({ text: "2" })];
      await say({ text: "3", deliveredAt: AT });
      expect(await texts({ pending: true })).toEqual(["1", "2"]);
      expect(await store.countMessages(id)).toEqual({ total: 3, pending: 2, undelivered: 0, lastAt: AT });
      expect(await store.deliverMessages("ses_none", [one.id], AT + 1)).toEqual([]);
      const both = await Promise.all([
        store.deliverMessages(id, [one.id], AT + 1),
        other.deliverMessages(id, [one.id], AT + 2),
      ]);
      expect(both.flat()).toEqual([one.id]);
      expect(await texts({ pending: true })).toEqual(["2"]);
      expect(await store.deliverMessages(id, [one.id, two.id, "msg_none"], AT + 3)).toEqual([two.id]);
      expect(await store.countMessages(id)).toEqual({ total: 3, pending: 0, undelivered: 0, lastAt: AT });
      expect(await store.countMessages("ses_none")).toEqual({
        total: 0,
        pending: 0,
        undelivered: 0,
        lastAt: null,
      });
    });

    test("a closed session gets no message, and a full inbox no more than its limit", async () => {
      const small = { ...bounds, pending: 2 };
      for (let at = 0; at < 2; at++)
        expect(await store.appendMessage(newMessage(id), small)).toHaveProperty("seq", at + 1);
      expect(await store.appendMessage(newMessage(id), small)).toBe("full");
      // Notices and other messages have separate limits.
      const notice = (): NewMessage => newMessage(id, { role: "system", fromSessionId: null });
      for (let at = 0; at < 2; at++)
        expect(await store.appendMessage(notice(), small)).toHaveProperty("seq", at + 3);
      expect(await store.appendMessage(notice(), small)).toBe("full");
      // Delivered messages do not count.
      expect(await store.appendMessage(newMessage(id, { deliveredAt: AT }), small)).toHaveProperty("seq", 5);
      await store.closeSession(id, "a", AT + 1);
      expect(await store.appendMessage(newMessage(id, { deliveredAt: AT }), bounds)).toBe("closed");
      expect(await store.appendMessage(newMessage("ses_none"), bounds)).toBe("closed");
      expect(await store.countMessages(id)).toMatchObject({ total: 5 });
    });

    test("the oldest messages are deleted beyond the limits of bytes and number; waiting ones stay", async () => {
      const waiting = await say({ text: "waits" });
      const delivered = { deliveredAt: AT };
      const tight = { ...bounds, bytes: 4_000 };
      for (let at = 0; at < 20; at++)
        await store.appendMessage(newMessage(id, { ...delivered, text: `${at}:${"é".repeat(300)}` }), tight);
      const kept = await other.listMessages(id, { limit: 100 });
      expect(kept[0]?.id).toBe(waiting.id);
      expect(kept.at(-1)?.seq).toBe(21);
      const bytes = kept.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
      expect(bytes).toBeLessThanOrEqual(tight.bytes + 605);
      expect(kept.length).toBeGreaterThan(5);
      const few = { ...bounds, messages: 3 };
      for (let at = 0; at < 16; at++) await store.appendMessage(newMessage(id, delivered), few);
      const { total } = await store.countMessages(id);
      expect(total).toBeLessThanOrEqual(1 + 3 + 16);
      expect((await other.listMessages(id, { limit: 100 }))[0]?.id).toBe(waiting.id);
    });

    test("a message larger than the limit is kept until the next", async () => {
      await say({ deliveredAt: AT, text: "before" });
      const tight = { ...bounds, bytes: 10 };
      const large = newMessage(id, { deliveredAt: AT, text: "x".repeat(100) });
      expect(await store.appendMessage(large, tight)).toHaveProperty("seq", 2);
      expect(await texts()).toEqual([large.text]);
    });

    test("a message that a run took is unanswered until the run answers or the session is closed", async () => {
      const asked = await say({ runId: "run_a", deliveredAt: AT });
      await say({ runId: null });
      const unanswered = async (): Promise<string[]> =>
        (await other.listUnansweredMessages({ gatewayInstanceId: "in_1" }, 9)).map((message) => message.id);
      expect(await unanswered()).toEqual([asked.id]);
      expect(await store.listUnansweredMessages({ gatewayInstanceId: "in_2" }, 9)).toEqual([]);
      expect(await store.listUnansweredMessages({ sessionId: id }, 9)).toMatchObject([{ id: asked.id }]);
      expect(await store.listUnansweredMessages({ sessionId: "ses_other" }, 9)).toEqual([]);
      await say({ runId: "run_a", role: "agent", deliveredAt: AT });
      expect(await unanswered()).toEqual([]);
      await say({ runId: "run_b", deliveredAt: AT });
      expect(await unanswered()).toHaveLength(1);
      await store.closeSession(id, "a", AT + 1);
      expect(await unanswered()).toEqual([]);
    });

    test("old messages are deleted, waiting ones are not; a deleted session deletes all", async () => {
      await say({ at: AT, deliveredAt: AT, text: "old" });
      await say({ at: AT, text: "old, waits" });
      await say({ at: AT + 10, deliveredAt: AT + 10, text: "new" });
      expect(await store.deleteSettledMessages(AT + 5)).toBe(1);
      expect(await texts()).toEqual(["old, waits", "new"]);
      expect((await say({ text: "next" })).seq).toBe(4);
      await store.closeSession(id, "a", AT + 11);
      expect(await store.deleteClosedSessions(AT + 12)).toBe(1);
      expect(await texts()).toEqual([]);
    });

    test("a session is idle when neither it nor anything in it is newer", async () => {
      const [quiet, loud] = [newSession({ lineage: [] }), newSession({ lineage: [] })];
      for (const each of [quiet, loud]) await store.createSession(each);
      await store.appendMessage(newMessage(loud.id, { at: AT + 10 }), bounds);
      const idle = async (since: number): Promise<Set<string>> =>
        new Set((await other.listSessions({ open: true, idleSince: since })).map((each) => each.id));
      expect(await idle(AT)).toEqual(new Set());
      expect(await idle(AT + 5)).toEqual(new Set([id, quiet.id]));
      expect(await idle(AT + 11)).toEqual(new Set([id, quiet.id, loud.id]));
    });
  });
}
