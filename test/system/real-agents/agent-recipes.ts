import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import type { AgentSettings } from "../../../src/model/acp/agent-settings.js";
import { FakeLanguageModel } from "../../support/language-model/fake-language-model.js";
import { waitFor } from "../../support/wait-for.js";

/** Configuration with which an agent of the catalogue needs no login and uses a model on loopback. All its files are below its home. */
interface AgentRecipe {
  /** A directory of its packages with a program that is not among those of npm. */
  readonly programs?: string;
  files(modelUrl: string): Readonly<Record<string, string>>;
  env(home: string, modelUrl: string): Readonly<Record<string, string>>;
  /** With these it asks before it executes a command, if it does not do so anyway. */
  readonly asking?: { readonly settings?: AgentSettings; readonly env?: Readonly<Record<string, string>> };
  /** With these its commands run outside its own sandbox. */
  readonly unconfined?: AgentSettings;
}

export const agentRecipes: Readonly<Record<string, AgentRecipe>> = {
  opencode: {
    files: (modelUrl) => ({
      ".config/opencode/opencode.json": JSON.stringify({
        autoupdate: false,
        share: "disabled",
        model: "fake/fake",
        small_model: "fake/fake",
        provider: {
          fake: {
            npm: "@ai-sdk/openai-compatible",
            options: { baseURL: `${modelUrl}/v1`, apiKey: "fake" },
            // Otherwise it sends only text.
            models: {
              fake: { attachment: true, modalities: { input: ["text", "image"], output: ["text"] } },
            },
          },
        },
      }),
    }),
    env: () => ({ OPENCODE_DISABLE_MODELS_FETCH: "1" }),
    asking: { env: { OPENCODE_PERMISSION: '{"bash":"ask"}' } },
  },
  codex: {
    files: (modelUrl) => ({
      ".codex/config.toml": `
model = "fake"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "${modelUrl}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
supports_websockets = false
`,
    }),
    env: (home) => ({ CODEX_HOME: join(home, ".codex"), FAKE_KEY: "fake" }),
    // In the mode that it starts in, a model reviews its requests.
    asking: { settings: { mode: "workspace-write" } },
    unconfined: { mode: "agent-full-access" },
  },
  gemini: {
    files: () => ({
      ".gemini/settings.json": JSON.stringify({
        // Without a name the agent requests a model to choose one.
        model: { name: "gemini-2.5-flash" },
        security: { auth: { selectedType: "gemini-api-key" } },
        general: { disableAutoUpdate: true, disableUpdateNag: true },
        privacy: { usageStatisticsEnabled: false },
      }),
    }),
    env: (_, modelUrl) => ({
      GEMINI_API_KEY: "fake",
      GOOGLE_GEMINI_BASE_URL: modelUrl,
      // Its one-shot command refuses to work in a directory that is not trusted.
      GEMINI_CLI_TRUST_WORKSPACE: "true",
    }),
  },
  qwen: {
    files: () => ({
      ".qwen/settings.json": JSON.stringify({
        security: { auth: { selectedType: "openai" } },
        // Otherwise it sends only text to a model whose name it does not know.
        model: { generationConfig: { modalities: { image: true } } },
      }),
    }),
    env: (_, modelUrl) => ({
      OPENAI_API_KEY: "fake",
      OPENAI_BASE_URL: `${modelUrl}/v1`,
      OPENAI_MODEL: "fake",
    }),
  },
  claude: {
    programs: `@anthropic-ai/claude-agent-sdk-${process.platform}-${process.arch}`,
    files: () => ({
      ".claude.json": JSON.stringify({ hasCompletedOnboarding: true }),
    }),
    env: (_, modelUrl) => ({
      ANTHROPIC_API_KEY: "fake",
      ANTHROPIC_BASE_URL: modelUrl,
      // Otherwise it refuses to start as root.
      IS_SANDBOX: "1",
      // Otherwise its model has to search for the tools of MCP servers first.
      ENABLE_TOOL_SEARCH: "false",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
    }),
  },
  copilot: {
    files: () => ({}),
    env: (_, modelUrl) => ({
      COPILOT_PROVIDER_BASE_URL: `${modelUrl}/v1`,
      COPILOT_PROVIDER_API_KEY: "fake",
      COPILOT_MODEL: "gpt-4.1",
      COPILOT_AUTO_UPDATE: "false",
    }),
  },
  pi: {
    files: (modelUrl) => ({
      ".pi/agent/models.json": JSON.stringify({
        providers: {
          fake: {
            baseUrl: `${modelUrl}/v1`,
            apiKey: "fake",
            api: "openai-completions",
            models: ["fake", "other"].map((id) => ({
              ...{ id, name: id, reasoning: false, input: ["text", "image"] },
              ...{ contextWindow: 100_000, maxTokens: 1_000 },
              cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
            })),
          },
        },
      }),
      ".pi/agent/settings.json": JSON.stringify({ defaultProvider: "fake", defaultModel: "fake" }),
    }),
    env: () => ({ PI_OFFLINE: "1", PI_SKIP_VERSION_CHECK: "1" }),
  },
};

const packages = JSON.parse(
  readFileSync(new URL("../../../scripts/test-programs/agent-packages.json", import.meta.url), "utf8"),
) as Readonly<Record<string, readonly string[]>>;

/** The environment for an agent, independent of the environment of the tests. */
async function agentEnvironment(
  name: string,
  home: string,
  modelUrl: string,
): Promise<Record<string, string>> {
  const recipe = agentRecipes[name];
  const directory = packages[name]?.[0]?.split("/").at(-1);
  if (recipe === undefined || directory === undefined) throw new Error(`no recipe for ${name}`);
  for (const [path, text] of Object.entries(recipe.files(modelUrl))) {
    await mkdir(dirname(join(home, path)), { recursive: true });
    await writeFile(join(home, path), text);
  }
  const modules = join(process.env["AGENT_SUITE"] ?? "", directory, "node_modules");
  const own = recipe.programs === undefined ? "" : `${join(modules, recipe.programs)}:`;
  return {
    PATH: `${join(modules, ".bin")}:${own}${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
    HOME: home,
    LANG: "C.UTF-8",
    NO_PROXY: "127.0.0.1",
    ...recipe.env(home, modelUrl),
  };
}

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

/**
 * Resolves in the next minute of the clock. In the minute in which Gemini began a session, its `session/load` overwrites
 * the stored session: https://github.com/google-gemini/gemini-cli/issues/28693
 */
export async function nextMinute(): Promise<void> {
  const { minute } = clock();
  await waitFor("the next minute begins", () => clock().minute !== minute, 65_000);
}

export function clock(): { minute: string; second: number } {
  const now = new Date();
  return { minute: now.toISOString().slice(0, 16), second: now.getUTCSeconds() };
}
