import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { AgentRun } from "../../../src/acp/agent/agent-run.js";
import type { ConnectionHandlers, ConnectionState } from "../../../src/acp/wire/connection-contract.js";
import { deferred } from "../../../src/async/deferred.js";
import type { Run, Supervisor } from "../../../src/supervisor/api.js";
import { misbehavingAgent } from "../../support/agents/acp-fixture.js";
import { openAgent, startTestAgent } from "../../support/agents/agent-run-fixture.js";
import {
  findProcessesOfRun,
  realSupervisor,
  temporaryHome,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

/** The state that a store would hold, changed in one step. */
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

/** An agent with a session, under a supervisor that will be closed. */
async function begin(
  mode: string,
  handlers: ConnectionHandlers,
): Promise<{ home: string; first: Supervisor; began: AgentRun }> {
  const home = await temporaryHome();
  const first = await realSupervisor({ home, instanceId: "in_acp" });
  const began = await startTestAgent(first, { argv: misbehavingAgent(mode), handlers });
  await openAgent(began);
  return { home, first, began };
}

/** The run, under the next supervisor. */
async function reattach(home: string, first: Supervisor, began: AgentRun): Promise<Run> {
  await first.close({ leaveRuns: true });
  await expect(began.ended).rejects.toMatchObject({ code: "SUPERVISOR_CLOSED" });
  expect(existsSync(began.tmpdir)).toBe(true);
  const second = await realSupervisor({ home, instanceId: "in_acp" });
  const [run] = await second.recover();
  return run!;
}

async function closeAndCheck(agentRun: AgentRun): Promise<void> {
  const { record } = await agentRun.close("test");
  expect(record).toMatchObject({ emptiness: "proven" });
  expect(await findProcessesOfRun(agentRun.run.runId)).toEqual([]);
  expect(existsSync(agentRun.tmpdir)).toBe(false);
}

test("a turn continues in the next gateway process without lost or repeated updates", async () => {
  const kept: Kept = { texts: [], stopReasons: [], end: 0 };
  const someway = deferred<void>();
  const { home, first, began } = await begin(
    "long-turn-in-halves",
    keeping(kept, (count) => {
      if (count > 500) someway.resolve();
    }),
  );
  const prompt = { sessionId: "s", prompt: [] };
  began.connection.request("session/prompt", prompt, { deadlineMs: 25_000 }).catch(() => undefined);
  await someway.promise;
  // A copy, as it would be read from the store.
  const state = JSON.parse(JSON.stringify(began.connection.state)) as ConnectionState;
  const run = await reattach(home, first, began);
  expect(kept.texts.length).toBeLessThan(3_000);
  process.kill(run.rootPid!, "SIGUSR1");

  const deps = { handlers: keeping(kept), ownExitMs: 5_000 };
  const agentRun = new AgentRun(run, began.tmpdir, deps, { state, startAt: kept.end });
  const [pending] = state.pending;
  expect(await agentRun.connection.answerTo(pending!.id)).toEqual({ stopReason: "end_turn" });
  expect(kept.texts).toEqual(Array.from({ length: 3_000 }, (_, at) => `${at}`));
  expect(kept.stopReasons).toHaveLength(1);
  expect(await agentRun.connection.request("session/prompt", prompt, { deadlineMs: 20_000 })).toBeDefined();
  await closeAndCheck(agentRun);
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
  const run = await reattach(home, first, began);
  expect(run.stdinAccepted).toBeGreaterThan(at);
  expect(run.stdinAccepted).toBeLessThan(at + Buffer.byteLength(frame));

  process.kill(run.rootPid!, "SIGUSR1");
  const deps = { handlers: keeping(kept), ownExitMs: 5_000 };
  const agentRun = new AgentRun(run, began.tmpdir, deps, { state, startAt: kept.end });
  expect(await agentRun.connection.answerTo(state.pending[0]!.id)).toEqual({ stopReason: "end_turn" });
  expect(kept.texts).toEqual([createHash("sha256").update(text).digest("hex")]);
  await closeAndCheck(agentRun);
});
