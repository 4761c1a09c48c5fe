import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import {
  killGateway,
  startGatewayProcess,
  temporaryHomeWithBystander,
} from "../../support/gateway/gateway-process.js";
import { findProcessesOfRun } from "../../support/supervisor/real-supervisor.js";
import { prepareAgent } from "./agent-recipes.js";
import { waitFor } from "../../support/wait-for.js";

const SLOWLY = 120_000;

async function comesTo(client: GatewayClient, id: string, what: string): Promise<void> {
  await waitFor(`the task is ${what}`, async () => {
    const { task } = await client.getTask({ params: { id } });
    return task.status === what || task.delivery === what;
  });
}

test.each(["opencode", "codex", "gemini", "qwen", "claude", "copilot", "pi"])(
  "%s: background work that it delegates to another agent survives the gateway, and it is notified once",
  async (agent) => {
    const state = await temporaryHomeWithBystander();
    const config = join(state, "config.toml");
    // Otherwise the operator is asked whether a session may start an agent.
    writeFileSync(config, '[[exec]]\neffect = "allow"\n');
    vi.stubEnv("HOLDFAST_CONFIG", config);
    const { home: cwd, model, inherit: environment } = await prepareAgent(agent);
    let { client, pid } = await startGatewayProcess(state);
    const body = { agent, cwd, environment, permissions: "approve-all" } as const;
    const { session: parent } = await client.acpSpawn({ body: { ...body, key: "parent" } });
    const { token } = await client.openSession({ body: { key: "parent" } });
    const asParent = createClient({ socketPath: gatewaySocketPath(state), token });

    const answerNow = model.hold();
    model.script.text = "Forty-two files.";
    const { session: child } = await asParent.acpSpawn({
      body: { ...body, mode: "run", background: true, prompt: "Count the files." },
    });
    const { tasks } = await asParent.listTasks({ query: { session: child.sessionId } });
    expect(tasks).toMatchObject([{ label: "Count the files.", runtime: "acp", policy: "done_only" }]);
    const id = tasks[0]?.taskId ?? "";
    await comesTo(client, id, "running");
    await waitFor("its model is asked", () => model.asked.length > 0);
    killGateway(pid);
    ({ client, pid } = await startGatewayProcess(state));
    answerNow();
    await comesTo(client, id, "session_queued");
    const { task, messages } = await client.getTask({ params: { id } });
    expect(task).toMatchObject({ status: "succeeded" });
    // One of them has a warning before it.
    expect(task.summary).toMatch(/Forty-two files\.$/);
    expect(messages).toHaveLength(1);
    await waitFor(
      "its agent is gone",
      async () => (await findProcessesOfRun(child.runId ?? "")).length === 0,
    );

    model.script.text = "I see.";
    const params = { id: parent.sessionId };
    for (const text of ["Well?", "And now?"]) await client.acpPrompt({ params, body: { text } });
    const notice = `Task “Count the files.” succeeded: ${task.summary}`;
    const conversation = model.bodies.find((each) => each.includes("And now?")) ?? "";
    expect(conversation.split(notice), "the conversation has it once").toHaveLength(2);
    await comesTo(client, id, "delivered");
    await client.acpClose({ params, body: {} });
    expect(await findProcessesOfRun(parent.runId ?? "")).toEqual([]);
  },
  SLOWLY,
);
