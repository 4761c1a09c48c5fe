import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { AgentReport } from "../../../src/model/acp/agent-reported-state.js";
import type { AgentSettings } from "../../../src/model/acp/agent-settings.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { agentRecipes, prepareAgent } from "./agent-recipes.js";

const SLOWLY = 120_000;
const names = Object.keys(agentRecipes);
const fixture = gatewayForFile();

test.each(names)(
  "%s: its mode or model is changed, and the next prompt is answered",
  async (agent) => {
    const { home: cwd, model, inherit: environment } = await prepareAgent(agent);
    const { session } = await fixture.client.acpSpawn({ body: { agent, cwd, environment } });
    const params = { id: session.sessionId };
    const { agentState } = await fixture.client.acpShow({ params });
    const body = anotherSetting(agentState ?? expect.fail("it reports nothing"));
    const changed = await fixture.client.acpSet({ params, body });
    expect(currentOf(changed.agentState, body)).toEqual(body);
    model.script.text = "With another setting.";
    const { turn } = await fixture.client.acpPrompt({ params, body: { text: "go" } });
    expect(turn).toMatchObject({ outcome: "completed" });
    expect(turn.text).toContain("With another setting.");
    expect(currentOf((await fixture.client.acpShow({ params })).agentState, body)).toEqual(body);
    await fixture.client.acpClose({ params });
  },
  SLOWLY,
);

test.each(names.filter((name) => name !== "opencode"))(
  "%s: without a login, the error repeats what the agent says and how to log in",
  async (agent) => {
    const { cwd, environment } = await withoutLogin(agent);
    const refusal = await fixture.client.acpSpawn({ body: { agent, cwd, environment } }).then(
      async ({ session: { sessionId: id } }) => {
        const { turn } = await fixture.client.acpPrompt({ params: { id }, body: { text: "go" } });
        return turn.problem ?? expect.fail("it answered");
      },
      (error: unknown) => error as { code: string; message: string },
    );
    expect(refusal).toMatchObject({ code: "ACP_AUTH_REQUIRED" });
    expect(refusal.message).toMatch(/authenticat|API key|log in/i);
    expect(refusal.message).toContain(agent === "claude" ? "session/prompt" : "session/new");
  },
  SLOWLY,
);

test(
  "opencode: without a login it opens a session with a free model",
  async () => {
    const { cwd, environment } = await withoutLogin("opencode");
    const { session } = await fixture.client.acpSpawn({ body: { agent: "opencode", cwd, environment } });
    const params = { id: session.sessionId };
    const { agentState } = await fixture.client.acpShow({ params });
    const model = agentState?.options.find(({ category }) => category === "model");
    expect(model?.current).toMatch(/^opencode\//);
    await fixture.client.acpClose({ params });
  },
  SLOWLY,
);

test.each(names)(
  "%s: an image of a prompt reaches its model",
  async (agent) => {
    const { home: cwd, model, inherit: environment } = await prepareAgent(agent);
    const { session } = await fixture.client.acpSpawn({ body: { agent, cwd, environment } });
    const params = { id: session.sessionId };
    const content = [{ type: "image", mimeType: "image/png", data: PIXEL }] as const;
    const { turn } = await fixture.client.acpPrompt({
      params,
      body: { text: "what is this?", content: [...content] },
    });
    expect(turn).toMatchObject({ outcome: "completed" });
    expect(model.hasReceived("what is this?", PIXEL)).toBe(true);
    await fixture.client.acpClose({ params });
  },
  SLOWLY,
);

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async function withoutLogin(
  agent: string,
): Promise<{ cwd: string; environment: Readonly<Record<string, string>> }> {
  const { inherit } = await prepareAgent(agent);
  const cwd = await mkdtemp(join(tmpdir(), "hf-home-"));
  onTestFinished(() => rm(cwd, { recursive: true, force: true, maxRetries: 5 }));
  const environment = { PATH: inherit["PATH"] ?? "", HOME: cwd, LANG: "C.UTF-8", IS_SANDBOX: "1" };
  return { cwd, environment };
}

/** A mode, or else a model, that the agent offers and does not use. */
function anotherSetting({ modes, models, options }: AgentReport): AgentSettings {
  for (const [key, choices] of [
    ["mode", modes],
    ["model", models],
  ] as const) {
    const option = options.find(({ category }) => category === key);
    const offered = option?.values.map(({ value }) => value) ?? choices?.available.map(({ id }) => id) ?? [];
    const other = offered.find((each) => each !== (option?.current ?? choices?.current));
    if (other !== undefined) return { [key]: other };
  }
  return expect.fail("it offers no choice");
}

/** The values in use of the settings that `wanted` has. */
function currentOf(state: AgentReport | null, wanted: AgentSettings): AgentSettings {
  const current = (key: "mode" | "model"): string | undefined =>
    state?.options.find(({ category }) => category === key)?.current ??
    (key === "mode" ? state?.modes : state?.models)?.current;
  return wanted.mode === undefined ? { model: current("model") } : { mode: current("mode") };
}
