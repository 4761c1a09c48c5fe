import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { type Adapter, resumeAdapter, startAdapter } from "../../src/acp/adapter.js";
import type { WireState } from "../../src/acp/wire/connection.js";
import type { Handlers } from "../../src/acp/wire/handlers.js";
import { initialize } from "../../src/acp/wire/initialize.js";
import { deferred } from "../../src/supervisor/deferred.js";
import { bystander, processesOf, realSupervisor, temporaryHome } from "../supervisor/real-supervisor.js";
import { misbehaving } from "./driven.js";

/** What a store would hold: changed in one step, so that nothing is ever half kept. */
interface Kept {
  texts: string[];
  stopReasons: unknown[];
  end: number;
}

function keeping(kept: Kept, atUpdate: (count: number) => void = () => undefined): Handlers {
  return {
    updates: async (batch) => {
      for (const { update, end } of batch) {
        kept.texts.push((update["content"] as { text: string }).text);
        kept.end = end;
      }
      atUpdate(kept.texts.length);
    },
    questions: {},
    answered: async ({ method }, outcome, end) => {
      if (method === "session/prompt") kept.stopReasons.push(outcome);
      kept.end = end;
    },
  };
}

test("a turn goes on in the next process: no update lost or doubled, one answer", async () => {
  const home = await temporaryHome();
  bystander("sleep", "3018");
  const kept: Kept = { texts: [], stopReasons: [], end: 0 };
  const someway = deferred<void>();
  const first = await realSupervisor({ home, instanceId: "in_acp" });
  const began = await startAdapter(first, {
    argv: misbehaving("long-turn"),
    graceMs: 300,
    handlers: keeping(kept, (count) => {
      if (count > 500) someway.resolve();
    }),
  });
  await initialize(began.connection, { name: "test", version: "0" }, { deadlineMs: 20_000 });
  await began.connection.request("session/new", { cwd: home, mcpServers: [] }, { deadlineMs: 20_000 });
  const prompt = { sessionId: "s", prompt: [] };
  began.connection.request("session/prompt", prompt, { deadlineMs: 25_000 }).catch(() => undefined);
  await someway.promise;
  // As it would be read from the store: a copy, of an earlier moment than the last.
  const state = JSON.parse(JSON.stringify(began.connection.state)) as WireState;
  await first.close({ leaveRuns: true });
  await expect(began.ended).rejects.toMatchObject({ code: "SUPERVISOR_CLOSED" });
  expect(existsSync(began.tmpdir)).toBe(true);
  expect(kept.texts.length).toBeLessThan(3_000);

  const second = await realSupervisor({ home, instanceId: "in_acp" });
  const [run] = await second.recover();
  const { tmpdir } = began;
  const adapter: Adapter = resumeAdapter(
    run!,
    { handlers: keeping(kept) },
    { state, startAt: kept.end, tmpdir },
  );
  const [pending] = state.pending;
  expect(await adapter.connection.answerTo(pending!.id)).toEqual({ stopReason: "end_turn" });
  expect(kept.texts).toEqual(Array.from({ length: 3_000 }, (_, at) => `${at}`));
  expect(kept.stopReasons).toHaveLength(1);
  expect(await adapter.connection.request("session/prompt", prompt, { deadlineMs: 20_000 })).toBeDefined();
  const { record } = await adapter.close();
  expect(record).toMatchObject({ emptiness: "proven" });
  expect(await processesOf(run!.runId)).toEqual([]);
  expect(existsSync(tmpdir)).toBe(false);
});
