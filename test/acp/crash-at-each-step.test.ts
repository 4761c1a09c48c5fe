import { expect, test } from "vitest";
import type { Store } from "../../src/store/store.js";
import { AcpFixture, shellAgent, overrideStore } from "../support/agents/acp-fixture.js";
import { waitFor } from "../support/wait-for.js";

/** As many as a turn with a question takes, at least. */
const STEPS = 6;

/** Where a session's gateway dies: right before it has written for the so-manyeth time in the turn, or right after. */
interface Death {
  readonly at: number;
  readonly written: boolean;
}

const deaths: readonly Death[] = Array.from({ length: STEPS }, (_, step) => [
  // The first write is the prompt itself, which was not acknowledged before.
  { at: step + 1, written: false },
  { at: step + 1, written: true },
]).flat();

test("after a crash at any step of a turn, the prompt is sent once and the request answered once", async () => {
  const dying = new Map<string, Death>();
  const counts = new Map<string, number>();
  const dead = new Set<string>();
  const never = new Promise<never>(() => undefined);
  const through = (store: Store): Store =>
    overrideStore(store, {
      commitAcpChange: async (...change) => {
        const [id] = change;
        const death = dying.get(id);
        const count = counts.get(id) ?? 0;
        counts.set(id, count + 1);
        if (death === undefined || count < death.at) return store.commitAcpChange(...change);
        if (death.written) await store.commitAcpChange(...change);
        dead.add(id);
        return never;
      },
    });
  const fixture = await AcpFixture.open({}, { through });
  const sessions = await Promise.all(
    deaths.map((_, at) => fixture.spawn(shellAgent(), { key: `s${at}`, rules: [{ effect: "allow" }] })),
  );
  const turns = await Promise.all(
    sessions.map((session, at) => {
      counts.set(session, 0);
      const death = deaths[at];
      if (death !== undefined) dying.set(session, death);
      return fixture.prompt(session, "ask echo hi");
    }),
  );
  await waitFor("each has died", () => dead.size === sessions.length);
  const second = await fixture.restart();
  for (const turn of turns) {
    expect(await second.waitForTurnEnd(turn)).toMatchObject({ outcome: "completed", text: "<yes>hi\n" });
    const { sessionId, turnId } = turn;
    const updates = await second.store.listAcpUpdates({ sessionId, turnId });
    expect(JSON.stringify(updates).match(/"tool_call"/g)).toHaveLength(1);
    expect(await second.store.listAcpPermissionRequests({ sessionId })).toMatchObject([{ answered: true }]);
  }
  expect(second.log.match(/^prompt/gm)).toHaveLength(sessions.length);
  await Promise.all(sessions.map((session) => second.acp.closeSession(session, { actor: "test" })));
});
