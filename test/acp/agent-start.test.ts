import { setTimeout } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { deferred } from "../../src/async/deferred.js";
import { AcpFixture, misbehavingAgent, overrideStore, shellAgent } from "../support/agents/acp-fixture.js";
import { scaled } from "../support/scale.js";
import { waitFor } from "../support/wait-for.js";

/** Opens a session without waiting for its agent, and returns its id when the process of the agent runs. */
async function startSlowly(fixture: AcpFixture, argv: readonly string[]) {
  const opened = fixture.spawn(argv);
  opened.catch(() => undefined);
  let sessionId = "";
  await waitFor("the agent's process runs", async () => {
    const [session] = await fixture.store.listAcpSessions({ open: true });
    sessionId = session?.sessionId ?? "";
    return fixture.supervisor.run(session?.runId ?? "")?.state === "running";
  });
  return { opened, sessionId };
}

test("prompts that arrive while the agent starts are answered in its session", async () => {
  const fixture = await AcpFixture.open();
  const [program = "", ...words] = shellAgent();
  const slow = ["/bin/sh", "-c", 'sleep 0.5; exec "$@"', "sh", program, ...words];
  const { opened, sessionId } = await startSlowly(fixture, slow);
  const turns = [await fixture.prompt(sessionId, "echo one"), await fixture.prompt(sessionId, "echo two")];
  const ended = await Promise.all(turns.map((turn) => fixture.waitForTurnEnd(turn)));
  expect(ended).toMatchObject([
    { outcome: "completed", text: "one\n" },
    { outcome: "completed", text: "two\n" },
  ]);
  expect(await opened).toBe(sessionId);
});

test("the timeout of a prompt counts while another request starts the agent", async () => {
  const fixture = await AcpFixture.open();
  const { opened, sessionId } = await startSlowly(fixture, misbehavingAgent("never-new"));
  const began = performance.now();
  const turn = await fixture.promptAndWait(sessionId, "go", 500);
  expect(performance.now() - began).toBeLessThan(scaled(10_000));
  expect(turn).toMatchObject({ outcome: "failed", problem: { code: "ACP_TIMEOUT" } });
  await fixture.close(sessionId);
  await expect(opened).rejects.toThrow();
});

test("a prompt that arrives while its session is being created does not take the agent for an ended one", async () => {
  const [isStored, promptCame, mayGoOn] = [deferred<void>(), deferred<void>(), deferred<void>()];
  let reads = 0;
  const fixture = await AcpFixture.open(
    {},
    {
      through: (store) =>
        overrideStore(store, {
          listAcpUpdates: async (filter) => {
            reads += 1;
            if (reads === 1) {
              isStored.resolve();
              // The prompt arrives before the session has a runner.
              await Promise.race([promptCame.promise, setTimeout(scaled(300))]);
            }
            // The read of the prompt's handler: the agent starts meanwhile.
            if (reads === 2) {
              promptCame.resolve();
              await mayGoOn.promise;
            }
            return store.listAcpUpdates(filter);
          },
        }),
    },
  );
  onTestFinished(() => mayGoOn.resolve());
  const opened = fixture.spawn(shellAgent());
  await isStored.promise;
  const [session] = await fixture.store.listAcpSessions({ open: true });
  const { sessionId } = session ?? expect.fail("no session was stored");
  const prompted = fixture.prompt(sessionId, "echo one");
  await waitFor("the agent runs", async () => {
    const { runId } = await fixture.session(sessionId);
    return fixture.supervisor.run(runId ?? "")?.state === "running";
  });
  mayGoOn.resolve();
  const turn = await fixture.waitForTurnEnd(await prompted);
  expect(turn).toMatchObject({ outcome: "completed", text: "one\n" });
  expect(await opened).toBe(sessionId);
  expect(await fixture.supervisor.listRuns({ sessionId })).toHaveLength(1);
});
