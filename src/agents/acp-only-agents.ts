import type { AgentEntryInput } from "../config/agents.js";

/** How an entry was checked that no test runs: only the command of another client's list of agents is known. */
const BY_ACPX = "not run; command as in acpx 0.19.1";

/** Built-in agents that are known only by their ACP command. */
export const ACP_ONLY_AGENTS: readonly AgentEntryInput[] = [
  acpOnly("antigravity", "Google Antigravity", ["agy_acp_server.par", "--uid="], {}),
  acpOnly("devin", "Devin", ["devin", "acp"], {}),
  acpOnly("droid", "Factory Droid", ["droid", "exec", "--output-format", "acp"], {
    passEnv: ["FACTORY_API_KEY"],
    install: "curl -fsSL https://app.factory.ai/cli | sh",
  }),
  acpOnly("fast-agent", "Fast Agent", ["uvx", "fast-agent-mcp", "acp"], {
    install: "curl -LsSf https://astral.sh/uv/install.sh | sh",
  }),
  acpOnly("fx", "fx", ["fx", "acp"], {}),
  acpOnly("grok-build", "Grok Build", ["grok", "agent", "stdio"], {}),
  acpOnly("iflow", "iFlow", ["iflow", "--experimental-acp"], {}),
  acpOnly("junie", "Junie", ["junie", "--acp=true"], fromNpm("@jetbrains/junie", "3110.7.0")),
  acpOnly("kilocode", "Kilo Code", ["kilo", "acp"], fromNpm("@kilocode/cli", "7.8.1")),
  acpOnly("kimi", "Kimi Code", ["kimi", "acp"], { install: "uv tool install kimi-cli" }),
  acpOnly("kiro", "Kiro", ["kiro-cli-chat", "acp"], {}),
  acpOnly("mcode", "MCode", ["mcode", "acp"], {}),
  acpOnly("mux", "Mux", ["mux", "acp"], { install: "npm install -g mux" }),
  acpOnly("openclaw", "OpenClaw", ["openclaw", "acp"], fromNpm("openclaw", "2026.9.6")),
  acpOnly("pool", "Poolside", ["pool", "acp"], {}),
  acpOnly("qoder", "Qoder", ["qodercli", "--acp"], fromNpm("@qoder-ai/qodercli", "1.1.52")),
  acpOnly("trae", "Trae", ["traecli", "acp", "serve"], {}),
  acpOnly("zeroclaw", "ZeroClaw", ["zeroclaw", "acp"], {}),
];

type Package = Pick<AgentEntryInput, "install"> & { readonly npm: { package: string; version: string } };

function fromNpm(name: string, version: string): Package {
  return { install: `npm install -g ${name}`, npm: { package: name, version } };
}

function acpOnly(
  id: string,
  name: string,
  argv: string[],
  { npm, ...more }: Pick<AgentEntryInput, "install" | "passEnv"> & Partial<Package>,
): AgentEntryInput {
  const exists = npm === undefined ? "" : `; ${npm.package} ${npm.version} is on npm`;
  return {
    id,
    name,
    acp: { argv, ...(npm === undefined ? {} : { npm }) },
    verified: `${BY_ACPX}${exists}`,
    ...more,
  };
}
