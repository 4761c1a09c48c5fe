import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Readable, Writable } from "node:stream";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { startGateway } from "../../../src/gateway/start-in-background.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { cliPath, collectOutput, waitForText } from "../../support/cli/cli-fixture.js";
import { whyNoTerminal } from "../../support/cli/recovery-fixture.js";
import { findByPath, type LiveProcess, signalProcess } from "../../support/live-processes.js";
import { plantLookalike } from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const SLOWLY = 300_000;
const clientPath = fileURLToPath(new URL("children/sdk-client.mjs", import.meta.url));
const memoryPath = createRequire(import.meta.url).resolve(
  "@modelcontextprotocol/server-memory/dist/index.js",
);

/** Time that a wrapped server has to end after its client: what `wrap` writes, and the grace period. */
const BOUND_MS = defaults.mcpInputGraceMs + defaults.graceMs + 2_000;

interface Client {
  readonly child: ChildProcess & { readonly stdin: Writable; readonly stdout: Readable };
  /** Processes that the servers consist of. */
  readonly servers: () => LiveProcess[];
}

let gateway: BackgroundGateway;
let project = "";

beforeAll(async () => {
  gateway = new BackgroundGateway(await mkdtemp(join(tmpdir(), "hf-")));
  await startGateway(gateway.home, cliPath);
  project = await mkdtemp(join(tmpdir(), "project-"));
});
afterAll(() => gateway[Symbol.asyncDispose]());

/** Writes the configuration of three servers, each with a variable that names `mark`. */
async function writeConfig(name: string, mark: string): Promise<string> {
  // A FIFO without a writer: a server that reads it waits forever, as for a file system that does not answer.
  const silent = join(project, name, "silent");
  const server = (args: readonly string[], tool: string, input: object): object => ({
    command: "npx",
    args: ["--no-install", ...args],
    env: { MARK: mark, MEMORY_FILE_PATH: silent },
    busy: { tool, input },
  });
  const mcpServers = {
    everything: server(["mcp-server-everything"], "trigger-long-running-operation", {
      duration: 3_600,
      steps: 1,
    }),
    filesystem: server(["mcp-server-filesystem", project], "read_text_file", { path: silent }),
    memory: server(["mcp-server-memory"], "read_graph", {}),
  };
  const path = join(project, name, ".mcp.json");
  await mkdir(join(project, name), { recursive: true });
  execFileSync("mkfifo", [silent]);
  await writeFile(path, JSON.stringify({ mcpServers }, null, 2));
  return path;
}

async function wrap(directory: string): Promise<void> {
  const child = spawn(process.execPath, [cliPath, "mcp", "wrap", "claude", "--apply"], {
    cwd: directory,
    env: { ...gateway.env, HOME: directory, CLAUDE_CONFIG_DIR: undefined },
    stdio: ["pipe", "pipe", "pipe"],
  });
  child.stdin.end();
  expect(await collectOutput(child).finished).toMatchObject({ code: 0 });
}

/** Starts a client with its servers, and waits until all of them answer. */
async function startClient(path: string, mark: string, onTerminal: boolean): Promise<Client> {
  const words = [process.execPath, clientPath, path];
  const [program = "", ...args] = onTerminal
    ? ["script", "-qefc", words.map((word) => `'${word}'`).join(" "), "/dev/null"]
    : words;
  const child = spawn(program, args, { cwd: resolve("."), stdio: ["pipe", "pipe", "inherit"] });
  await waitForText(child.stdout, "ready: everything filesystem memory");
  return { child, servers: () => findByPath(mark) };
}

/** How a client ends. It resolves when the client is gone. */
type End = (client: Client["child"]) => Promise<unknown>;

const send =
  (line: string): End =>
  async (child) => {
    child.stdin.write(`${line}\n`);
    await once(child, "exit");
  };
const kill: End = async (child) => {
  child.kill("SIGKILL");
  await once(child, "exit");
};

/** How many processes of the three chains (npx, its shell, the server) are left at least without Holdfast. */
type LeftBare = 0 | 3 | 9;

test.for<readonly [string, End, LeftBare, { readonly onTerminal?: true }?]>([
  ["is killed with SIGKILL", kill, 9],
  // Its SDK signals the process that it has started, which is npx.
  ["is closed", send("close"), 3],
  ["crashes", send("crash"), 9],
  ["loses its terminal", kill, 0, { onTerminal: true }],
])(
  "of three busy servers behind npx nothing is left when the client %s",
  { timeout: SLOWLY },
  async ([name, end, leftBare, { onTerminal = false } = {}], context) => {
    if (onTerminal && whyNoTerminal !== null) return context.skip(whyNoTerminal);
    plantLookalike(process.execPath, "-e", "setInterval(() => {}, 1000)", "--", memoryPath);
    const [wrapped, bare] = await Promise.all([
      startCase(`wrapped ${name}`, { isWrapped: true, onTerminal }),
      startCase(`bare ${name}`, { isWrapped: false, onTerminal }),
    ]);
    expect(bare.servers()).toHaveLength(9);
    // Each with the `holdfast run` in front of it.
    expect(wrapped.servers()).toHaveLength(12);
    const endedAt = performance.now();
    await Promise.all([end(wrapped.child), end(bare.child)]);
    await waitFor("the wrapped servers are gone", () => wrapped.servers().length === 0, BOUND_MS);
    // The others have the same time.
    await setTimeout(Math.max(0, BOUND_MS - (performance.now() - endedAt)));
    expect(bare.servers().length).toBeGreaterThanOrEqual(leftBare);
    for (const each of bare.servers()) signalProcess(each, "SIGKILL");

    const { listRuns } = await gateway.client();
    await waitFor("the runs of the servers have ended", async () => {
      const { runs } = await listRuns({ query: { all: "1", label: "mcp-client=claude" } });
      return (
        runs.length > 0 && runs.every(({ state, emptiness }) => state === "exited" && emptiness === "proven")
      );
    });
  },
);

async function startCase(
  name: string,
  { isWrapped, onTerminal }: { readonly isWrapped: boolean; readonly onTerminal: boolean },
): Promise<Client> {
  const mark = join(project, "mark of", name);
  const path = await writeConfig(name, mark);
  if (isWrapped) await wrap(dirname(path));
  return startClient(path, mark, onTerminal);
}
