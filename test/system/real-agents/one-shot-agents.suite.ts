import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/api/client.js";
import { openGateway } from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { livingParts, STUBBORN_TREE_THEN_EXIT } from "../../support/agents/stubborn-tree.js";
import { findProcessesOfRun, temporaryHome } from "../../support/supervisor/real-supervisor.js";
import { prepareAgent } from "./agent-recipes.js";

const timeoutMs = 110_000;

/** The agents whose packages have a one-shot command. */
test.each(["opencode", "gemini", "qwen", "pi"])(
  "%s: found, its version asked; a prompt by its command, its answer kept, then resumed",
  async (name) => {
    const { home: cwd, model, inherit: environment } = await prepareAgent(name);
    const home = await temporaryHome();
    const gateway = await openGateway({ home, onEvent: () => undefined });
    onTestFinished(() => gateway.stop({ runs: "terminate", waitMs: 0 }));
    await gateway.ready;
    const token = (await readOperatorToken(home)) ?? "";
    const client = createClient({ socketPath: gatewaySocketPath(home), token });
    const params = { id: name };
    const { checks } = await client.checkAgent({ params, body: { environment, cwd } });
    expect(checks.flatMap(({ forms }) => forms)).toEqual(["acp", "cli"]);
    expect(checks.map(({ failure }) => failure)).toEqual(checks.map(() => null));
    expect(checks.at(-1)?.version).toMatch(/^\d+\.\d+\.\d+/);

    const ask = async (prompt: string, resume?: string) => {
      const body = { prompt, environment, cwd, timeoutMs, graceMs: 300, yieldMs: timeoutMs + 5_000 };
      const answer = await client.runAgent({
        params,
        body: resume === undefined ? body : { ...body, resume },
      });
      const { run, output } = answer;
      expect(run.exit, JSON.stringify(output)).toMatchObject({ reason: "exit", code: 0 });
      expect(await findProcessesOfRun(run.runId)).toEqual([]);
      expect(livingParts()).toBe("");
      return answer;
    };
    model.script.command = name === "opencode" ? STUBBORN_TREE_THEN_EXIT : null;
    model.script.text = "First answer.";
    const first = await ask("--what is this?");
    expect(first.result).toMatchObject({ text: "First answer.", error: null });
    expect(model.hasReceived("--what is this?")).toBe(true);
    model.script.command = null;
    model.script.text = "Second answer.";
    const second = await ask("and that?", "last");
    expect(second.session.id).toBe(first.session.id);
    expect(second.result).toEqual({ ...first.result, text: "Second answer." });
    expect(model.hasReceived("--what is this?", "and that?"), "it remembers").toBe(true);
    const { messages } = await client.sessionHistory({ params: { id: first.session.id } });
    expect(messages.map(({ role, text }) => `${role}: ${text}`)).toEqual([
      "user: --what is this?",
      "agent: First answer.",
      "user: and that?",
      "agent: Second answer.",
    ]);
  },
  3 * timeoutMs,
);
