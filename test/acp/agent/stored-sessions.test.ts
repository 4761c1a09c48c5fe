import { expect, test } from "vitest";
import { AcpFixture, misbehavingAgent, settableAgent } from "../../support/agents/acp-fixture.js";

/** An agent whose sessions outlive it, with one session that has a turn. */
async function openWithStoredSession() {
  const fixture = await AcpFixture.open();
  const environment = { PATH: process.env["PATH"] ?? "", AGENT_SESSIONS: `${fixture.home}/own` };
  const first = await fixture.spawn(settableAgent(), { environment, key: "first" });
  await fixture.promptAndWait(first, "hello");
  const { agentSessionId } = await fixture.session(first);
  await fixture.close(first);
  return { fixture, environment, stored: agentSessionId ?? "" };
}

test("a session made elsewhere is listed, continued, and continued as a copy", async () => {
  const { fixture, environment, stored } = await openWithStoredSession();
  const command = fixture.acp.commands.resolve({ argv: settableAgent(), environment });
  const request = { agent: null, command, cwd: fixture.home, directory: null, limit: 10 };
  expect(await fixture.acp.listAgentSessions(request)).toMatchObject([
    { sessionId: stored, cwd: fixture.home, title: "hello" },
  ]);
  expect(await fixture.acp.listAgentSessions({ ...request, directory: "/elsewhere" })).toEqual([]);

  const resumed = await fixture.spawn(settableAgent(), {
    ...{ environment, key: "second", resume: { sessionId: stored, fork: false } },
  });
  expect(await fixture.session(resumed)).toMatchObject({ agentSessionId: stored, state: "ready" });
  const turn = await fixture.promptAndWait(resumed, "more");
  expect(turn).toMatchObject({ outcome: "completed", contextLost: false });
  expect(JSON.parse(turn.text)).toMatchObject({ turns: 2 });

  const fork = await fixture.spawn(settableAgent(), {
    ...{ environment, key: "third", resume: { sessionId: stored, fork: true } },
  });
  const { agentSessionId } = await fixture.session(fork);
  expect(agentSessionId).not.toBe(stored);
  expect(JSON.parse((await fixture.promptAndWait(fork, "copy")).text)).toMatchObject({ turns: 3 });
  expect(await fixture.acp.listAgentSessions(request)).toHaveLength(2);
});

test("a session that cannot be continued is not replaced by a new one", async () => {
  const { fixture, environment } = await openWithStoredSession();
  const resume = { sessionId: "nothing", fork: false };
  const missing = fixture.spawn(settableAgent(), { environment, key: "second", resume });
  await expect(missing).rejects.toMatchObject({ code: "ACP_REFUSED" });
  const unable = fixture.spawn(settableAgent(), { key: "third", resume });
  await expect(unable).rejects.toThrow("the agent cannot continue a session");
  const noFork = fixture.spawn(settableAgent(), { key: "fourth", resume: { ...resume, fork: true } });
  await expect(noFork).rejects.toThrow("the agent cannot fork a session");
  expect(await fixture.store.listAcpSessions({ open: true })).toEqual([]);
});

test("additional directories are passed to an agent that takes them, and refused otherwise", async () => {
  const { fixture, environment } = await openWithStoredSession();
  const directories = ["/srv/a", "/srv/b"];
  const session = await fixture.spawn(settableAgent(), { environment, key: "second", directories });
  const { text } = await fixture.promptAndWait(session, "report");
  expect(JSON.parse(text)).toMatchObject({ additionalDirectories: directories });
  const again = (other: readonly string[]) =>
    fixture.spawn(settableAgent(), { environment, key: "second", directories: other });
  expect(await again(directories)).toBe(session);
  await expect(again(["/srv/c"])).rejects.toMatchObject({
    code: "SESSION_TAKEN",
    message: expect.stringContaining("with other directories") as string,
  });
  const refused = fixture.spawn(settableAgent(), { key: "third", directories });
  await expect(refused).rejects.toThrow("the agent does not take additional directories");
});

test("an agent without session/list is named as such, and ends", async () => {
  const fixture = await AcpFixture.open();
  const command = fixture.acp.commands.resolve({ argv: misbehavingAgent("long-turn") });
  const request = { agent: null, command, cwd: fixture.home, directory: null, limit: 10 };
  await expect(fixture.acp.listAgentSessions(request)).rejects.toThrow("cannot list its sessions");
  const runs = await fixture.supervisor.listRuns({});
  expect(runs.map(({ state }) => state)).toEqual(["exited"]);
});
