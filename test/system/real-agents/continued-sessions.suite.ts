import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { ClientSideConnection, ndJsonStream } from "acp-sdk-1";
import { expect, test } from "vitest";
import { agentsById } from "../../../src/agents/catalogue.js";
import { errorOf, gatewayForFile } from "../../support/gateway/real-gateway.js";
import { descendantsOf, isAlive, signalProcess } from "../../support/live-processes.js";
import { waitFor } from "../../support/wait-for.js";
import { agentRecipes, clock, nextMinute, prepareAgent } from "./agent-recipes.js";

const SLOWLY = 120_000;
const fixture = gatewayForFile();

test.each(Object.keys(agentRecipes))(
  "%s: a session that was made outside is continued",
  async (agent) => {
    const { client } = fixture;
    const { home: cwd, model, inherit: environment } = await prepareAgent(agent);
    const sessionId = await promptOutside(agent, cwd, environment, "the word is marmalade");
    if (agent === "gemini") await nextMinute();
    const body = { agent, cwd, environment, resume: { sessionId } } as const;
    const { session } = await client.acpSpawn({ body });
    const params = { id: session.sessionId };
    const { turn } = await client.acpPrompt({ params, body: { text: "which word?" } });
    expect(turn).toMatchObject({ outcome: "completed", contextLost: false });
    expect(model.hasReceived("the word is marmalade", "which word?")).toBe(true);
    await client.acpClose({ params });
  },
  SLOWLY,
);

test(
  "gemini: it refuses a session that it began in the same minute, and has lost it",
  async () => {
    const { home: cwd, inherit: environment } = await prepareAgent("gemini");
    if (clock().second > 15) await nextMinute();
    const { minute } = clock();
    const sessionId = await promptOutside("gemini", cwd, environment, "the word is marmalade");
    const body = { agent: "gemini", cwd, environment, resume: { sessionId } } as const;
    const refusals = [await errorOf(fixture.client.acpSpawn({ body }))];
    expect(clock().minute, "the session was begun and loaded in one minute").toBe(minute);
    await nextMinute();
    refusals.push(await errorOf(fixture.client.acpSpawn({ body })));
    for (const { message } of refusals) expect(message).toMatch(/No previous sessions found/);
  },
  2 * SLOWLY,
);

/** One prompt to an agent that Holdfast does not start. Returns the agent's id of the session. */
async function promptOutside(
  agent: string,
  cwd: string,
  env: Readonly<Record<string, string>>,
  text: string,
): Promise<string> {
  const [command = "", ...args] = agentsById().get(agent)?.acp?.argv ?? [];
  const child = spawn(command, args, { cwd, env, stdio: ["pipe", "pipe", "ignore"] });
  const exited = once(child, "exit");
  const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  // oxlint-disable-next-line no-deprecated -- the release that the example agents are from
  const connection = new ClientSideConnection(
    () => ({
      sessionUpdate: () => Promise.resolve(),
      requestPermission: () => Promise.resolve({ outcome: { outcome: "cancelled" } }),
    }),
    stream,
  );
  await connection.initialize({ protocolVersion: 1, clientCapabilities: {} });
  const { sessionId } = await connection.newSession({ cwd, mcpServers: [] });
  await connection.prompt({ sessionId, prompt: [{ type: "text", text }] });
  // Some adapters leave their own processes behind.
  const tree = descendantsOf(child.pid ?? 0);
  child.stdin.end();
  const late = setTimeout(() => child.kill("SIGKILL"), 5_000);
  await exited;
  clearTimeout(late);
  // One that still saves the session ends by itself.
  await waitFor(() => !tree.some(isAlive), 5_000).catch(() => undefined);
  for (const one of tree.filter(isAlive)) signalProcess(one, "SIGKILL");
  return sessionId;
}
