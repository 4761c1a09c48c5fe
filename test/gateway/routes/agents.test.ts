import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { CLI_OUTPUTS } from "../../../src/config/agents.js";
import type { GatewayClient } from "../../../src/api/client.js";
import { parseConfig } from "../../../src/config/schema.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import { agentWithGivenSessionId, fakeAgentsConfig } from "../../support/agents/fake-agents.js";
import { findProcessesOfRun } from "../../support/supervisor/real-supervisor.js";
import { waitForRunEnd, gatewayForFile, errorOf } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const config = parseConfig(`${fakeAgentsConfig}${agentWithGivenSessionId}`, "");
const fixture = gatewayForFile({ config });

/** Waited for to its end. */
async function run(
  id: string,
  prompt: string,
  more: { readonly resume?: string; readonly background?: boolean } = {},
  client: GatewayClient = fixture.client,
): Promise<ResponseOf<"runAgent">> {
  return client.runAgent({ params: { id }, body: { prompt, yieldMs: 20_000, ...more } });
}

async function said(id: string): Promise<string[]> {
  const { messages } = await fixture.client.sessionHistory({ params: { id } });
  return messages.map(({ role, text }) => `${role}: ${text}`);
}

test("an agent that prints no session id, and takes one, can be resumed", async () => {
  const first = await run("given", "hello");
  const id = first.result?.agentSessionId ?? "";
  expect(first.result).toMatchObject({ text: `again in ${id}: hello`, error: null });
  const failed = await run("given", "fail");
  expect(failed.result).toMatchObject({ agentSessionId: null, error: expect.any(String) });
  const next = await run("given", "more", { resume: "last" });
  expect(next.session.id).toBe(first.session.id);
  expect(next.result).toMatchObject({ text: `again in ${id}: more`, agentSessionId: id });
});

describe.each(CLI_OUTPUTS)("an agent that speaks %s", (dialect) => {
  test("answers, and can be resumed by each name of its session", async () => {
    const first = await run(dialect, "hello");
    const { session } = first;
    expect(first.result).toMatchObject({ text: "you said: hello", error: null });
    expect(first.run).toMatchObject({
      agentId: dialect,
      backendId: "cli",
      kind: "task",
      sessionId: session.id,
      policy: { onEscape: "sweep" },
      deadlines: { noOutputMs: 600_000 },
    });
    expect(session).toMatchObject({ agentId: dialect, backend: "cli", interactionMode: "interactive" });
    if (dialect === "text") {
      // The output contains no session id to resume.
      expect(first.result?.agentSessionId).toBeNull();
      expect(await errorOf(run(dialect, "more", { resume: session.id }))).toMatchObject({
        code: "BAD_INPUT",
      });
      expect(await errorOf(run(dialect, "more", { resume: "last" }))).toMatchObject({ code: "NOT_FOUND" });
      return;
    }
    const agentSessionId = first.result?.agentSessionId ?? "";
    expect(agentSessionId).toMatch(new RegExp(`^${dialect}-\\d+$`));
    const names = ["last", session.id, session.key, agentSessionId];
    // All of them for one; what they name does not depend on the dialect.
    for (const resume of dialect === "codex" ? names : ["last"]) {
      const next = await run(dialect, "more", { resume });
      expect(next.session.id).toBe(session.id);
      expect(next.result?.text).toBe(`again in ${agentSessionId}: more`);
      expect(next.run.deadlines.noOutputMs).toBe(180_000);
    }
    const history = await said(session.id);
    expect(history.slice(0, 4)).toEqual([
      "user: hello",
      "agent: you said: hello",
      "user: more",
      `agent: again in ${agentSessionId}: more`,
    ]);
    expect(await fixture.client.sessionStatus({ params: { id: session.id } })).toMatchObject({
      state: "idle",
      session: { agentSessionId },
      messages: { total: history.length, pending: 0 },
    });
  });

  test("that fails gives its reason, also in the history", async () => {
    const failed = await run(dialect, "fail");
    expect(failed.failure).toBe("exit-code");
    expect(failed.result?.error).toContain(
      dialect === "text" ? "it exited with code 3" : "it exited with code 3: the model said no",
    );
    if (dialect !== "text" && dialect !== "codex") return;
    const broken = await run(dialect, "broken");
    expect(broken.result?.error).toContain("it exited with code 4: not logged in");
    expect(broken.result?.error).not.toContain("verysecret");
    expect((await said(broken.session.id))[1]).toContain("system: it exited with code 4");
    if (dialect === "text") return;
    const quiet = await run(dialect, "quiet");
    expect(quiet).toMatchObject({ failure: null, result: { text: "", error: "the model said no" } });
  });
});

test("processes that an agent leaves are stopped, and its answer is kept", async () => {
  const { run: record, result } = await run("codex", "leave");
  expect(result).toMatchObject({ text: "you said: leave", error: null });
  expect(record).toMatchObject({ exit: { reason: "exit", code: 0 }, emptiness: "proven" });
  expect(record.residueCount).toBeGreaterThan(0);
  expect(await findProcessesOfRun(record.runId)).toEqual([]);
});

test("a session accepts one prompt at a time; in the background its answer is recorded at the end", async () => {
  const gate = join(fixture.home, "gate");
  const {
    run: working,
    session,
    result,
  } = await fixture.client.runAgent({
    params: { id: "codex" },
    body: {
      prompt: "wait",
      background: true,
      environment: { PATH: process.env["PATH"] ?? "", GATE: gate },
    },
  });
  expect(result).toBeNull();
  expect(session.interactionMode).toBe("run");
  expect(await fixture.client.agentResult({ params: working })).toMatchObject({ result: null });
  expect(await fixture.client.sessionStatus({ params: { id: session.id } })).toMatchObject({
    state: "working",
    runs: [{ runId: working.runId }],
  });
  await writeFile(gate, "");
  await waitForRunEnd(fixture.client, working.runId);
  await waitFor("it is answered", async () => (await said(session.id)).length === 2);
  expect(await said(session.id)).toEqual(["user: wait", "agent: done"]);
  expect(await fixture.client.agentResult({ params: working })).toMatchObject({
    result: { text: "done", error: null },
  });
});

test("a repeated request for a running prompt gets the answer of the first run, once", async () => {
  const gate = join(fixture.home, "gate of the same");
  const ask = () =>
    fixture.client.runAgent({
      params: { id: "codex" },
      body: {
        prompt: "wait",
        background: true,
        runId: "run_00000000same",
        environment: { PATH: process.env["PATH"] ?? "", GATE: gate },
      },
    });
  const { session, run: working } = await ask();
  expect(await errorOf(ask())).toMatchObject({ code: "RUN_EXISTS" });
  expect(await said(session.id)).toEqual(["user: wait"]);
  await writeFile(gate, "");
  await waitForRunEnd(fixture.client, working.runId);
  await waitFor("it is answered", async () => (await said(session.id)).length === 2);
  expect(await said(session.id)).toEqual(["user: wait", "agent: done"]);
});

test("the id of another session's run is refused without information about that run", async () => {
  const { run: others } = await run("result", "hello");
  const body = { prompt: "mine", runId: others.runId };
  const asked = fixture.client.runAgent({ params: { id: "codex" }, body });
  expect(await errorOf(asked)).toMatchObject({ code: "RUN_EXISTS" });
  const { sessions } = await fixture.client.listSessions({ query: { limit: 1 } });
  expect(sessions[0]).toMatchObject({ agentId: "codex", agentSessionId: null });
  expect(await said(sessions[0]?.id ?? "")).toEqual([]);
});

test("two prompts at once in one session: one is refused, and nothing of it is recorded", async () => {
  const { session } = await run("codex", "hello");
  const both = await Promise.allSettled([
    run("codex", "one", { resume: session.id }),
    run("codex", "two", { resume: session.id }),
  ]);
  const refused = both.filter((each) => each.status === "rejected");
  expect(refused.map(({ reason }) => (reason as { code: string }).code)).toEqual(["SESSION_BUSY"]);
  expect(await said(session.id)).toHaveLength(4);
});

test("a prompt whose command cannot be started gets the failure as its answer", async () => {
  const missing = await fixture.client
    .runAgent({
      params: { id: "codex" },
      body: { prompt: "hello", cwd: "/nonexistent", yieldMs: 20_000 },
    })
    .catch((error: unknown) => error as Error);
  const { sessions } = await fixture.client.listSessions({ query: { limit: 1 } });
  const [asked, answer, ...more] = await said(sessions[0]?.id ?? "");
  expect(asked).toBe("user: hello");
  expect(answer).toMatch(/^system: .*nonexistent/);
  expect(more).toEqual([]);
  expect(missing).toBeDefined();
});

test("an unknown agent, and one without a one-shot command, are refused", async () => {
  expect(await errorOf(run("nobody", "x"))).toMatchObject({ code: "NOT_FOUND" });
  expect(await errorOf(fixture.client.checkAgent({ params: { id: "nobody" } }))).toMatchObject({
    code: "NOT_FOUND",
  });
});

describe("for a session", () => {
  test("an agent's session is its child: with its exec rules, and at most its visibility", async () => {
    const execRules = [{ effect: "allow" as const, executable: process.execPath }];
    const { token, session: parent } = await fixture.client.openSession({
      body: { key: "boss", agentId: "planner", visibility: "self", sandboxed: true, execRules },
    });
    const { session, run: record, result } = await run("codex", "hello", {}, fixture.as(token));
    expect(result?.text).toBe("you said: hello");
    expect(session).toMatchObject({
      ownerSessionKey: "boss",
      spawnedBy: "boss",
      parentSessionKey: "boss",
      lineage: [parent.id],
      sandboxed: true,
      visibility: "self",
      execRules,
    });
    expect(record).toMatchObject({ sessionId: session.id, agentId: "codex" });
    const [asked] = (await fixture.client.sessionHistory({ params: { id: session.id } })).messages;
    expect(asked).toMatchObject({ fromSessionId: parent.id, actor: "session:boss" });
  });

  test("a forbidden agent is not started, and no session or message is recorded", async () => {
    const execRules = [{ effect: "deny" as const }];
    const { token } = await fixture.client.openSession({ body: { key: "bound", execRules } });
    const count = async (): Promise<number> => (await fixture.client.listSessions()).sessions.length;
    const before = await count();
    for (const ask of [
      () => run("codex", "hello", {}, fixture.as(token)),
      () => fixture.as(token).checkAgent({ params: { id: "codex" } }),
    ])
      expect(await errorOf(ask())).toMatchObject({ code: "EXEC_DENIED" });
    expect(await count()).toBe(before);
  });

  test("the session of another cannot be resumed: it is not found", async () => {
    const { session, result } = await run("codex", "hello");
    const execRules = [{ effect: "allow" as const }];
    const { token } = await fixture.client.openSession({ body: { key: "curious", execRules } });
    const ask = (resume: string) => errorOf(run("codex", "x", { resume }, fixture.as(token)));
    for (const name of [session.id, session.key, result?.agentSessionId ?? "", "missing"])
      expect(await ask(name)).toEqual({
        code: "NOT_FOUND",
        message: `there is no session ${name} of codex`,
      });
    expect(await ask("last")).toMatchObject({ code: "NOT_FOUND" });
    const own = await run("codex", "mine", {}, fixture.as(token));
    const next = await run("codex", "more", { resume: "last" }, fixture.as(token));
    expect(next.session.id).toBe(own.session.id);
    expect(await said(session.id)).toHaveLength(2);
  });
});
