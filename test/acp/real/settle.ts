import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { FakeLanguageModel } from "../../support/language-model/fake-language-model.js";
import { agentEnvironment } from "../../system/real-agents/agent-recipes.js";

/** A home, a model and an environment for one agent, until the test has finished. */
export async function prepareAgent(
  name: string,
): Promise<{ home: string; model: FakeLanguageModel; inherit: Record<string, string> }> {
  const home = await mkdtemp(join(tmpdir(), "hf-home-"));
  onTestFinished(() => rm(home, { recursive: true, force: true, maxRetries: 5 }));
  const model = await FakeLanguageModel.start();
  onTestFinished(() => model[Symbol.asyncDispose]());
  return { home, model, inherit: await agentEnvironment(name, home, model.url) };
}
