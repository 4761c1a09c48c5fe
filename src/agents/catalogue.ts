import { type AgentEntry, type AgentEntryInput, agentEntrySchema } from "../config/agents.js";
import { ACP_ONLY_AGENTS } from "./acp-only-agents.js";

/**
 * Built-in agents that have an ACP command and a one-shot command, from their documentation. An entry with the same id in
 * the config replaces one. A prompt is placed where it cannot be parsed as an option.
 */
const BUILT_IN_ENTRIES: readonly AgentEntryInput[] = [
  {
    id: "claude",
    name: "Claude Code",
    acp: {
      argv: ["claude-agent-acp"],
      npm: { package: "@agentclientprotocol/claude-agent-acp", version: "0.100.0" },
    },
    verified: "`npm run test:agents`, claude-agent-acp 0.100.0; one-shot command by its documentation",
    cli: {
      argv: ["claude", "--print", "--output-format", "stream-json", "--verbose"],
      resumeArgv: [
        ...["claude", "--print", "--output-format", "stream-json", "--verbose"],
        ...["--resume", "{sessionId}"],
      ],
      output: "result",
    },
    passEnv: ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
    install: "npm install -g @anthropic-ai/claude-code @agentclientprotocol/claude-agent-acp",
  },
  {
    id: "codex",
    name: "Codex",
    acp: { argv: ["codex-acp"], npm: { package: "@agentclientprotocol/codex-acp", version: "2.6.0" } },
    verified:
      "`npm run test:agents`, codex-acp 2.6.0 with codex 0.166.0; one-shot command by hand, codex 0.166",
    cli: {
      argv: ["codex", "exec", "--json", "-"],
      resumeArgv: ["codex", "exec", "--json", "resume", "{sessionId}", "-"],
      output: "codex",
    },
    passEnv: ["OPENAI_API_KEY", "CODEX_API_KEY"],
    install: "npm install -g @openai/codex @agentclientprotocol/codex-acp",
  },
  {
    id: "cursor",
    name: "Cursor",
    acp: { argv: ["cursor-agent", "acp"] },
    verified: "not run; commands by their documentation",
    cli: {
      argv: ["cursor-agent", "--print", "--output-format", "stream-json", "--", "{prompt}"],
      resumeArgv: [
        ...["cursor-agent", "--print", "--output-format", "stream-json"],
        ...["--resume={sessionId}", "--", "{prompt}"],
      ],
      output: "result",
    },
    passEnv: ["CURSOR_API_KEY"],
    install: "curl https://cursor.com/install -fsS | bash",
  },
  {
    id: "gemini",
    name: "Gemini CLI",
    acp: { argv: ["gemini", "--acp"], npm: { package: "@google/gemini-cli", version: "0.61.0" } },
    verified: "`npm run test:agents`, gemini-cli 0.61.0",
    cli: {
      argv: ["gemini", "--output-format", "json"],
      resumeArgv: ["gemini", "--output-format", "json", "--resume", "{sessionId}"],
      output: "gemini",
    },
    passEnv: ["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    install: "npm install -g @google/gemini-cli",
  },
  {
    id: "pi",
    name: "Pi",
    acp: { argv: ["pi-acp"], npm: { package: "pi-acp", version: "0.0.34" } },
    verified: "`npm run test:agents`, pi-acp 0.0.34 with pi 0.87.1; one-shot command by its documentation",
    cli: {
      argv: ["pi", "--mode", "json"],
      resumeArgv: ["pi", "--mode", "json", "--session", "{sessionId}"],
      output: "pi",
    },
    passEnv: ["ANTHROPIC_API_KEY", "ANTHROPIC_OAUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY"],
    install: "npm install -g @earendil-works/pi-coding-agent pi-acp",
  },
  {
    id: "opencode",
    name: "OpenCode",
    acp: { argv: ["opencode", "acp"], npm: { package: "opencode-ai", version: "1.18.33" } },
    verified: "`npm run test:agents`, opencode-ai 1.18.33",
    cli: {
      argv: ["opencode", "run", "--format", "json"],
      resumeArgv: ["opencode", "run", "--format", "json", "--session", "{sessionId}"],
      output: "opencode",
    },
    passEnv: ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENCODE_API_KEY"],
    install: "npm install -g opencode-ai",
  },
  {
    id: "qwen",
    name: "Qwen Code",
    acp: { argv: ["qwen", "--acp"], npm: { package: "@qwen-code/qwen-code", version: "0.24.4" } },
    verified: "`npm run test:agents`, qwen-code 0.24.4",
    cli: {
      argv: ["qwen", "--output-format", "stream-json"],
      resumeArgv: ["qwen", "--output-format", "stream-json", "--resume", "{sessionId}"],
      output: "result",
    },
    passEnv: ["DASHSCOPE_API_KEY", "OPENAI_API_KEY"],
    install: "npm install -g @qwen-code/qwen-code",
  },
  {
    id: "copilot",
    name: "GitHub Copilot",
    acp: { argv: ["copilot", "--acp"], npm: { package: "@github/copilot", version: "1.0.102" } },
    verified: "`npm run test:agents`, copilot 1.0.102; one-shot command by its documentation",
    cli: {
      // It does not print the id of its session.
      argv: ["copilot", "--silent", "--session-id={newSessionId}"],
      resumeArgv: ["copilot", "--silent", "--resume={sessionId}"],
      output: "text",
    },
    passEnv: ["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"],
    install: "npm install -g @github/copilot",
  },
];

const BUILT_IN_AGENTS: readonly AgentEntry[] = [...BUILT_IN_ENTRIES, ...ACP_ONLY_AGENTS].map((entry) =>
  agentEntrySchema.parse(entry),
);

export function agentsFromConfig(
  tables: Readonly<Record<string, Omit<AgentEntry, "id">>>,
): readonly AgentEntry[] {
  return Object.entries(tables).map(([id, fields]) => ({ id, ...fields }));
}

/** Built-in and configured agents by id; a configured agent replaces a built-in one. */
export function agentsById(own: readonly AgentEntry[] = []): ReadonlyMap<string, AgentEntry> {
  return new Map([...BUILT_IN_AGENTS, ...own].map((entry) => [entry.id, entry]));
}
