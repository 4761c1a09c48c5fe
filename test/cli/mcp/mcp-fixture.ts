import { spawn } from "node:child_process";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type ClientFile, PLACES } from "./client-files.js";
import { CliFixture, type CliResult, cliPath, collectOutput } from "../../support/cli/cli-fixture.js";

/** A user with a home directory and a project, in which `holdfast mcp` runs. */
export class McpFixture extends CliFixture {
  static override async open(): Promise<McpFixture> {
    const fixture = new McpFixture(await mkdtemp(join(tmpdir(), "hf-")));
    await mkdir(fixture.user, { recursive: true });
    await mkdir(fixture.project, { recursive: true });
    return fixture;
  }

  get user(): string {
    return join(this.home, "home");
  }

  get project(): string {
    return join(this.home, "project");
  }

  async mcp(...args: readonly string[]): Promise<CliResult> {
    const env = {
      ...this.env,
      HOME: this.user,
      HOLDFAST_HOME: join(this.home, "state"),
      XDG_CONFIG_HOME: undefined,
      CODEX_HOME: undefined,
      CLAUDE_CONFIG_DIR: undefined,
      GEMINI_CLI_HOME: undefined,
      OPENCODE_CONFIG: undefined,
      OPENCODE_CONFIG_DIR: undefined,
    };
    const child = spawn(process.execPath, [cliPath, "mcp", ...args], {
      cwd: this.project,
      env,
      stdio: ["pipe", "pipe", "pipe"],
    });
    child.stdin.end();
    return collectOutput(child).finished;
  }

  async write(path: string, text: string): Promise<string> {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
    return path;
  }
}

/** The path of a client's file on the machine of a test. */
export function pathBelow(directory: string, { file }: ClientFile): string {
  const project = file.path.startsWith(PLACES.project);
  const base = project ? PLACES.project : PLACES.home;
  return join(directory, project ? "project" : "home", file.path.slice(base.length));
}
