import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { type Adapter, resumeAdapter, startAdapter } from "../../../src/acp/agent/adapter.js";
import { initialize } from "../../../src/acp/agent/open-agent-session.js";
import type { ConnectionHandlers, ConnectionState } from "../../../src/acp/wire/handlers.js";
import { deferred } from "../../../src/async/deferred.js";
import type { Run, Supervisor } from "../../../src/supervisor/api.js";
import { misbehavingAgent } from "../../support/agents/adapter-fixture.js";
import {
  findProcessesOfRun,
  plantLookalike,
  realSupervisor,
  temporaryHome,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

/** What a store would hold: changed in one step, so that nothing is ever half kept. */
interface Kept {
  texts: string[];
  stopReasons: unknown[];
  end: number;
}

function keeping(kept: Kept, atUpdate: (count: number) => void = () => undefined): ConnectionHandlers {
  return {
    onUpdates: async (batch) => {
      for (const { update, end } of batch) {
        kept.texts.push((update["content"] as { text: string }).text);
        kept.end = end;
      }
      atUpdate(kept.texts.length);
    },
    requests: {},
    onAnswer: async ({ method }, outcome, end) => {
      if (method === "session/prompt") kept.stopReasons.push(outcome);
      kept.end = end;
    },
  };
}

/** An agent that has a session, under a supervisor that will go away. */
async function begin(
  mode: string,
  handlers: ConnectionHandlers,
): Promise<{ home: string; first: Supervisor; began: Adapter }> {
  const home = await temporaryHome();
  plantLookalike("sleep", "3018");
  const first = await realSupervisor({ home, instanceId: "in_acp" });
  const began = await startAdapter(first, { argv: misbehavingAgent(mode), graceMs: 300, handlers });
  await initialize(began.connection, { name: "test", version: "0" }, { deadlineMs: 20_000 });
  await began.connection.request("session/new", { cwd: home, mcpServers: [] }, { deadlineMs: 20_000 });
  return { home, first, began };
}

/** The run as another supervisor takes it up. */
async function takeUp(home: string, first: Supervisor, began: Adapter): Promise<Run> {
  await first.close({ leaveRuns: true });
  await expect(began.ended).rejects.toMatchObject({ code: "SUPERVISOR_CLOSED" });
  expect(existsSync(began.tmpdir)).toBe(true);
  const second = await realSupervisor({ home, instanceId: "in_acp" });
  const [run] = await second.recover();
  return run!;
}

async function closeAndLook(adapter: Adapter): Promise<void> {
  const { record } = await adapter.close();
  expect(record).toMatchObject({ emptiness: "proven" });
  expect(await findProcessesOfRun(adapter.run.runId)).toEqual([]);
  expect(existsSync(adapter.tmpdir)).toBe(false);
}

test("a turn continues in the next gateway process without lost or repeated updates", async () => {
  const kept: Kept = { texts: [], stopReasons: [], end: 0 };
  const someway = deferred<void>();
  const { home, first, began } = await begin(
    "long-turn",
    keeping(kept, (count) => {
      if (count > 500) someway.resolve();
    }),
  );
  const prompt = { sessionId: "s", prompt: [] };
  began.connection.request("session/prompt", prompt, { deadlineMs: 25_000 }).catch(() => undefined);
  await someway.promise;
  // As it would be read from the store: a copy, of an earlier moment than the last.
  const state = JSON.parse(JSON.stringify(began.connection.state)) as ConnectionState;
  const run = await takeUp(home, first, began);
  expect(kept.texts.length).toBeLessThan(3_000);

  const { tmpdir } = began;
  const adapter = resumeAdapter(run, { handlers: keeping(kept) }, { state, startAt: kept.end, tmpdir });
  const [pending] = state.pending;
  expect(await adapter.connection.answerTo(pending!.id)).toEqual({ stopReason: "end_turn" });
  expect(kept.texts).toEqual(Array.from({ length: 3_000 }, (_, at) => `${at}`));
  expect(kept.stopReasons).toHaveLength(1);
  expect(await adapter.connection.request("session/prompt", prompt, { deadlineMs: 20_000 })).toBeDefined();
  await closeAndLook(adapter);
});

test("the next gateway process writes the rest of a half-written prompt", async () => {
  const kept: Kept = { texts: [], stopReasons: [], end: 0 };
  const onItsWay = deferred<ConnectionState>();
  const { home, first, began } = await begin("reads-late", {
    ...keeping(kept),
    beforeSend: async (outgoing, request) => {
      if (request?.method === "session/prompt")
        onItsWay.resolve({ pending: [request], openRequests: [], outgoing });
    },
  });
  const text = "grün ".repeat(1_000_000);
  const prompt = [{ type: "text" as const, text }];
  began.connection
    .request("session/prompt", { sessionId: "s", prompt }, { deadlineMs: 25_000 })
    .catch(() => undefined);
  const state = JSON.parse(JSON.stringify(await onItsWay.promise)) as ConnectionState;
  const { at, text: frame } = state.outgoing!;
  await waitFor("some of it is written", () => began.run.stdinAccepted > at);
  const run = await takeUp(home, first, began);
  expect(run.stdinAccepted).toBeGreaterThan(at);
  expect(run.stdinAccepted).toBeLessThan(at + Buffer.byteLength(frame));

  process.kill(run.rootPid!, "SIGUSR1");
  const { tmpdir } = began;
  const adapter = resumeAdapter(run, { handlers: keeping(kept) }, { state, startAt: kept.end, tmpdir });
  expect(await adapter.connection.answerTo(state.pending[0]!.id)).toEqual({ stopReason: "end_turn" });
  expect(kept.texts).toEqual([createHash("sha256").update(text).digest("hex")]);
  await closeAndLook(adapter);
});
