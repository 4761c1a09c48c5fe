import { type AgentEntry, type AgentEntryInput, agentEntrySchema } from "../config/agents.js";

/**
 * Built-in agents, by their documentation. An entry with the same id in the config replaces one. A prompt is placed where
 * it cannot be parsed as an option.
 */
const BUILT_IN_ENTRIES: readonly AgentEntryInput[] = [
  {
    id: "claude",
    name: "Claude Code",
    acp: { argv: ["claude-agent-acp"] },
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
    acp: { argv: ["codex-acp"] },
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
    acp: { argv: ["gemini", "--acp"] },
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
    acp: { argv: ["pi-acp"] },
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
    acp: { argv: ["opencode", "acp"] },
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
    acp: { argv: ["qwen", "--acp"] },
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
    acp: { argv: ["copilot", "--acp"] },
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

const BUILT_IN_AGENTS: readonly AgentEntry[] = BUILT_IN_ENTRIES.map((entry) => agentEntrySchema.parse(entry));

export function agentsFromConfig(
  tables: Readonly<Record<string, Omit<AgentEntry, "id">>>,
): readonly AgentEntry[] {
  return Object.entries(tables).map(([id, fields]) => ({ id, ...fields }));
}

/** Built-in and configured agents by id; a configured agent replaces a built-in one. */
export function agentsById(own: readonly AgentEntry[] = []): ReadonlyMap<string, AgentEntry> {
  return new Map([...BUILT_IN_AGENTS, ...own].map((entry) => [entry.id, entry]));
}
