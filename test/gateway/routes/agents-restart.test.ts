import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { parseConfig } from "../../../src/config/schema.js";
import { openGateway, type Gateway } from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { fakeAgentsConfig } from "../../support/agents/fake-agents.js";
import { findProcessesOfRun, temporaryHome } from "../../support/supervisor/real-supervisor.js";
import { waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const config = parseConfig(fakeAgentsConfig, "");

/** A state directory whose gateway comes and goes. */
async function openGatewayHome() {
  const home = await temporaryHome();
  let gateway: Gateway | null = null;
  onTestFinished(() => gateway?.stop({ runs: "terminate", waitMs: 0 }));
  const start = async (): Promise<GatewayClient> => {
    gateway = await openGateway({ home, config, onEvent: () => undefined });
    await gateway.ready;
    const token = (await readOperatorToken(home)) ?? "";
    return createClient({ socketPath: gatewaySocketPath(home), token });
  };
  return { home, start, stop: async () => gateway?.stop() };
}

test("the answer of an agent whose gateway stops is recorded once by the next gateway", async () => {
  const { home, start, stop } = await openGatewayHome();
  const client = await start();
  const ask = (gate: string) =>
    client.runAgent({
      params: { id: "result" },
      body: {
        prompt: "wait",
        background: true,
        environment: { PATH: process.env["PATH"] ?? "", GATE: join(home, gate) },
      },
    });
  const [meanwhile, afterwards] = [await ask("meanwhile"), await ask("afterwards")];
  await stop();
  // One ends when there is no gateway, the other when the next is there.
  await writeFile(join(home, "meanwhile"), "");
  await waitFor(
    "the first has ended",
    async () => (await findProcessesOfRun(meanwhile.run.runId)).length === 0,
  );
  const next = await start();
  await writeFile(join(home, "afterwards"), "");
  for (const { run: record, session } of [meanwhile, afterwards]) {
    await waitForRunEnd(next, record.runId);
    await waitFor("it is answered", async () => {
      const { messages } = await next.sessionHistory({ params: { id: session.id } });
      return messages.length > 1;
    });
    const { messages } = await next.sessionHistory({ params: { id: session.id } });
    expect(messages.map(({ role, text }) => `${role}: ${text}`)).toEqual(["user: wait", "agent: done"]);
    expect(await next.agentResult({ params: record })).toMatchObject({ result: { text: "done" } });
  }
});

test("the rest of a prompt whose gateway stops is sent by the next gateway", async () => {
  const { start, stop } = await openGatewayHome();
  const prompt = `${"long ".repeat(180_000)}end`;
  const body = { prompt, background: true };
  const { run: begun } = await (await start()).runAgent({ params: { id: "result" }, body });
  await stop();
  const next = await start();
  await waitForRunEnd(next, begun.runId);
  const { result } = await next.agentResult({ params: begun });
  expect(result?.text).toBe(`you said: ${prompt}`);
});
