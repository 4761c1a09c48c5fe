import { posix, win32 } from "node:path";
import { Command } from "commander";
import { CLI_MAIN } from "../../gateway/start-in-background.js";
import { resolveHome } from "../../home/state-directory.js";
import { defaults } from "../../defaults.js";
import { truncate } from "../../text/truncate.js";
import { formatDuration } from "../../text/format-units.js";
import { addRunCommand } from "../run/command.js";
import type { McpClient } from "./clients.js";

/** The labels of the run of a wrapped server. */
export const SERVER_LABEL = "mcp";
export const CLIENT_LABEL = "mcp-client";

/**
 * The words that start the command line, for a program that has neither this shell's PATH nor its variables: clients pass
 * on HOME and PATH, and little else.
 */
export function holdfastWords(
  env: Readonly<Record<string, string | undefined>> = process.env,
  platform: NodeJS.Platform = process.platform,
): string[] {
  const home = resolveHome(env, platform);
  const isDefault = home === resolveHome({ ...env, HOLDFAST_HOME: "", XDG_STATE_HOME: "" }, platform);
  if (platform === "win32") return [process.execPath, CLI_MAIN];
  const program = posix.join(home, "native", "bin", "holdfast");
  return isDefault ? [program] : ["/usr/bin/env", `HOLDFAST_HOME=${home}`, program];
}

/**
 * The words in front of a server's own. A server without arguments gets no `--`, which shows an undo that the entry had no
 * `args`.
 */
export function wrappingWords(
  client: McpClient,
  name: string,
  hasArgs: boolean,
  holdfast: readonly string[],
): string[] {
  const options = [
    ...["run", "--no-pty", "--on-escape", "sweep"],
    ...["--end-with-input", formatDuration(defaults.mcpInputGraceMs)],
    ...["--label", `${SERVER_LABEL}=${labelText(name)}`, "--label", `${CLIENT_LABEL}=${client}`],
  ];
  return [...holdfast, ...options, ...(hasArgs ? ["--"] : [])];
}

/** Clients replace variables in arguments, so a name must not look like a variable. */
function labelText(name: string): string {
  return truncate(name.replaceAll(/[^\p{L}\p{N}_.@/ -]/gu, "_"), defaults.labelValueChars);
}

/** A command that starts through `holdfast run`. */
export interface WrappedCommand {
  /** The number of words before the server's own. */
  readonly prefix: number;
  /** True if the last of these words is `--`. */
  readonly separated: boolean;
  /** True if the run has the label that wrap writes. The user may write `holdfast run` in a file, too. */
  readonly byWrap: boolean;
  /** The value of the label that wrap writes. */
  readonly server: string | null;
}

/** Null: the command does not start through `holdfast run`. */
export function readWrappedCommand(words: readonly string[]): WrappedCommand | null {
  let at = holdfastPrefix(words);
  if (at === 0 || words[at] !== "run") return null;
  at++;
  let server: string | null = null;
  for (let word = words[at]; word !== undefined && word.startsWith("-"); word = words[at]) {
    at++;
    if (word === "--") return { prefix: at, separated: true, byWrap: server !== null, server };
    const [, name = word, inline] = /^(--[^=]+)=(.*)$/s.exec(word) ?? [];
    if (!takesValue(name)) continue;
    const value = inline ?? words[at++] ?? "";
    if (name === "--label" && value.startsWith(`${SERVER_LABEL}=`))
      server = value.slice(SERVER_LABEL.length + 1);
  }
  return at < words.length ? { prefix: at, separated: false, byWrap: server !== null, server } : null;
}

/** The number of words that start the command line; 0: it is another program. */
function holdfastPrefix(words: readonly string[]): number {
  const at = baseName(words[0]) === "env" && words[1]?.startsWith("HOLDFAST_HOME=") === true ? 2 : 0;
  if (baseName(words[at]) === "holdfast") return at + 1;
  const script = (words[at + 1] ?? "").replaceAll("\\", "/");
  const isScript =
    words[at + 1] === CLI_MAIN || /holdfast\/dist\/(?:cli\/main\.js|bundle\/main\.cjs)$/.test(script);
  return baseName(words[at]) === "node" && isScript ? at + 2 : 0;
}

/** The name of a program without the suffix of Windows, on any platform: the file may be from another one. */
function baseName(path = ""): string {
  return win32.basename(posix.basename(path)).replace(/\.(?:exe|cmd|ps1)$/i, "");
}

/** True if the words start Holdfast's own MCP server. */
export function startsHoldfastMcp(words: readonly string[]): boolean {
  const prefix = holdfastPrefix(words);
  return prefix > 0 && words[prefix] === "mcp";
}

let valueOptions: ReadonlySet<string> | null = null;

/** True if a value follows this option of `holdfast run`. */
function takesValue(name: string): boolean {
  valueOptions ??= readValueOptions();
  return valueOptions.has(name);
}

function readValueOptions(): ReadonlySet<string> {
  const program = new Command().enablePositionalOptions();
  addRunCommand(program, () => undefined);
  const options = program.commands.flatMap((run) => run.options);
  return new Set(
    options.filter(({ required }) => required).flatMap(({ short, long }) => [short ?? "", long ?? ""]),
  );
}
