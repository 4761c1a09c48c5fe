import { configFiles, type ConfigFile, type McpClient } from "../../../src/cli/mcp/clients.js";

/** A configuration file as the documentation of its client shows it. */
export interface ClientFile {
  readonly client: McpClient;
  readonly of: string;
  readonly file: ConfigFile;
  readonly text: string;
  /** Names of its stdio servers. */
  readonly stdio: readonly string[];
  /** Its other servers, and why they stay as they are. */
  readonly others: Readonly<Record<string, string>>;
}

export const PLACES = {
  ...({ platform: "linux", env: {}, home: "/home/ada", project: "/srv/site" } as const),
  directoriesIn: (path: string) => (path.endsWith("/profiles") ? ["-1b2"] : []),
} as const;

function clientFile(
  client: McpClient,
  end: string,
  text: string,
  stdio: readonly string[],
  others: ClientFile["others"] = {},
): ClientFile {
  const file = configFiles(client, PLACES).find(({ path }) => path.endsWith(end));
  if (file === undefined) throw new Error(`${client} has no file ${end}`);
  return { client, of: `${client} ${end}`, file, text, stdio, others };
}

export const CLIENT_FILES: readonly ClientFile[] = [
  clientFile(
    "claude",
    "/site/.mcp.json",
    `{
  "mcpServers": {
    "database-tools": {
      "command": "\${CLAUDE_PLUGIN_ROOT:-/opt}/servers/db-server",
      "args": ["--config", "\${HOME}/config.json"],
      "env": {
        "DB_URL": "\${DB_URL}"
      }
    },
    "shared-server": {
      "command": "/path/to/server",
      "args": [],
      "env": {}
    },
    "api-server": {
      "type": "http",
      "url": "\${API_BASE_URL:-https://api.example.com}/mcp",
      "headers": {
        "Authorization": "Bearer \${API_KEY}"
      }
    }
  }
}
`,
    ["database-tools", "shared-server"],
    { "api-server": "remote" },
  ),
  clientFile(
    "claude",
    "/ada/.claude.json",
    `{
  "numStartups": 34,
  "tipsHistory": { "shift-enter": 27 },
  "projects": {
    "/srv/site": {
      "allowedTools": [],
      "history": [{ "display": "what is \\"mcpServers\\"?", "pastedContents": {} }],
      "mcpServers": {
        "chrome-devtools": { "type": "stdio", "command": "npx", "args": ["chrome-devtools-mcp@latest"], "env": {} },
        "off": { "command": "npx", "args": ["off"] }
      },
      "disabledMcpServers": ["off"]
    },
    "/srv/other": { "mcpServers": {} }
  },
  "mcpServers": {
    "playwright": {
      "type": "stdio",
      "command": "npx",
      "args": [
        "-y",
        "@playwright/mcp@latest"
      ],
      "env": {}
    }
  },
  "userID": "x"
}`,
    ["playwright", "chrome-devtools"],
    { off: "disabled" },
  ),
  clientFile(
    "claude-desktop",
    "/Claude/claude_desktop_config.json",
    `{\r
  "mcpServers": {\r
    "filesystem": {\r
      "command": "npx",\r
      "args": [\r
        "-y",\r
        "@modelcontextprotocol/server-filesystem",\r
        "C:\\\\Users\\\\ada\\\\Desktop"\r
      ]\r
    },\r
    "weather": {\r
      "command": "C:\\\\weather\\\\server.exe"\r
    }\r
  }\r
}\r
`,
    ["filesystem", "weather"],
  ),
  clientFile(
    "codex",
    "/ada/.codex/config.toml",
    `model = "gpt-5.5"   # the default
approval_policy = "on-request"

[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"] # documentation
env_vars = ["LOCAL_TOKEN"]

[mcp_servers.context7.env]
MY_ENV_VAR = "MY_ENV_VALUE"

[mcp_servers."my server"]
args = [
  # where
  '--root',
  """/srv
x""",
]
command = 'C:\\tools\\server.exe' # literal
cwd = "/srv"
startup_timeout_sec = 20

[mcp_servers.plain]
  command = "plain-server"   # has no arguments

[mcp_servers.far]
command = "npx"
experimental_environment = "remote"

[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_OAUTH_TOKEN"

[mcp_servers.off]
command = "npx"
enabled = false

[mcp_servers]
inline = { command = "uvx", args = [] }
bare = { command = "uvx" }
dotted.command = "npx"
dotted.env.A = "1"

[tui]
notifications = true
`,
    ["context7", "my server", "plain", "inline", "bare", "dotted"],
    { far: "its client starts it in another environment", figma: "remote", off: "disabled" },
  ),
  clientFile(
    "gemini",
    "/site/.gemini/settings.json",
    `{
  // theme of the terminal
  "theme": "GitHub",
  "mcp": { "excluded": ["experimental-server"] },
  "mcpServers": {
    "pythonTools": {
      "command": "python",
      "args": ["-m", "my_mcp_server", "--port", "8080"],
      "cwd": "./mcp-servers/python",
      "env": {
        "DATABASE_URL": "$DB_CONNECTION_STRING",
        "API_KEY": "\${EXTERNAL_API_KEY}"
      },
      "timeout": 15000
    },
    "experimental-server": { "command": "node", "args": ["x.js"] },
    "httpServer": {
      "httpUrl": "http://localhost:3000/mcp",
      "timeout": 5000
    }
  }
}
`,
    ["pythonTools"],
    { "experimental-server": "disabled", httpServer: "remote" },
  ),
  clientFile(
    "opencode",
    "/opencode/opencode.jsonc",
    `{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    /* local */
    "my-local-mcp-server": {
      "type": "local",
      // Or ["bun", "x", "my-mcp-command"]
      "command": ["npx", "-y", "my-mcp-command"],
      "enabled": true,
      "environment": {
        "MY_ENV_VAR": "my_env_var_value",
      },
    },
    "spread": {
      "type": "local",
      "command": [
        "bun",
        "x", // the command
        "{env:SERVER}",
      ],
    },
    "off": { "type": "local", "command": ["npx", "off"], "enabled": false },
    "my-remote": {
      "type": "remote",
      "url": "https://my-mcp-server.com",
    },
    "servers": { "second": { "type": "local", "command": ["npx", "second"] }, },
  },
}
`,
    ["my-local-mcp-server", "spread", "second"],
    { off: "disabled", "my-remote": "remote" },
  ),
  clientFile(
    "cursor",
    "/site/.cursor/mcp.json",
    `\uFEFF{
	"mcpServers": {
		"server-name": {
			"type": "stdio",
			"command": "\${workspaceFolder}/bin/server",
			"args": [ "--root", "\${workspaceFolder}", "\${env:MODE}" ],
			"envFile": "\${workspaceFolder}/.env"
		},
		"remote": { "url": "http://localhost:3000/mcp" },
		"disabled": { "command": "x", "disabled": true }
	}
}
`,
    ["server-name"],
    { remote: "remote", disabled: "disabled" },
  ),
  clientFile(
    "vscode",
    "/site/.vscode/mcp.json",
    `{
  "inputs": [
    { "type": "promptString", "id": "perplexity-key", "description": "Perplexity API Key", "password": true },
  ],
  "servers": {
    // https://github.com/github/github-mcp-server/
    "Github": { "url": "https://api.githubcopilot.com/mcp/" },
    "perplexity": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "server-perplexity-ask", /* more */ "\${input:perplexity-key}"],
      "env": { "PERPLEXITY_API_KEY": "\${input:perplexity-key}" },
    },
    "memory": {
      "command": "npx", "args": [ ], },
    "confined": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "@example/mcp-server"],
      "sandboxEnabled": true,
      "sandbox": { "filesystem": { "allowWrite": ["\${workspaceFolder}"] } }
    },
    "watched": { "command": "node", "args": ["a.js"], "dev": { "watch": "src/**" } },
    "debugged": { "command": "node", "args": ["b.js"], "dev": { "debug": { "type": "node" } } },
  },
}
`,
    ["perplexity", "memory", "watched"],
    {
      Github: "remote",
      confined: "its client confines it to a sandbox",
      debugged: "its client debugs it",
    },
  ),
  clientFile(
    "vscode",
    "/profiles/-1b2/mcp.json",
    `{\n\t"servers": {\n\t\t"a": {\n\t\t\t"command": "a"\n\t\t}\n\t}\n}`,
    ["a"],
  ),
];
