import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { BadInput } from "../../errors.js";
import { CLIENT_FILE_ACCESS } from "../../model/enums.js";
import { noticeInstallHint } from "../agents/command.js";
import {
  addNotifyOptions,
  misplacedNotifyOption,
  notifyBody,
  type NotifyFlags,
} from "../client/notify-options.js";
import {
  addDetachOption,
  asOptionParser,
  type DetachFlags,
  isDetached,
  type SetExitCode,
} from "../options/parsers.js";
import { parseDuration } from "../options/units.js";
import { reportError } from "../print/stderr.js";
import { OUTPUT_FORMATS, type OutputFormat } from "./view/texts.js";

const answerHelp = `
Ctrl-C cancels the turn and waits for its end; a second Ctrl-C leaves the rest to the
gateway. On a terminal you are asked about the agent's permission requests.

Formats: text, for reading while it comes; json, the agent's frames, one object per
line; quiet, only the answer. --json prints the record of the turn when it has ended.

Exit status: 0 answered, 1 the agent failed or refused, 3 it stopped early, 121 its
process ended during the turn, 122 cancelled and not confirmed, 123 answered without
the context of earlier turns, 124 timeout, 125 Holdfast failed, 130 cancelled.
`;

export interface DisplayFlags {
  readonly format?: OutputFormat;
  readonly thoughts?: true;
  readonly json?: true;
  readonly timeout?: number;
}

function rejectNotifyOptions(flags: NotifyFlags, instead: string): void {
  const misplaced = misplacedNotifyOption(flags);
  if (misplaced !== null) throw new BadInput("option", `${misplaced}: add ${instead}; nothing was sent`);
}

/** Options of commands that show an answer. */
function addDisplayOptions(command: Command): Command {
  return command
    .option(
      "--timeout <duration>",
      "end the agent if it has not answered by then",
      asOptionParser(parseTurnTimeout),
    )
    .option("--thoughts", "print the agent's thoughts in full")
    .addOption(formatOption())
    .addOption(new Option("--json", "print the record when the turn has ended").conflicts("format"));
}

export function formatOption(): Option {
  return new Option("--format <format>", "the output format")
    .choices(OUTPUT_FORMATS)
    .default(undefined, "text");
}

const DAY_MS = 86_400_000;

function parseTurnTimeout(text: string): number {
  const timeoutMs = parseDuration(text);
  if (timeoutMs < 1_000 || timeoutMs > DAY_MS)
    throw new BadInput("timeout", "Write a duration from 1s to 24h.");
  return timeoutMs;
}

function displayOptions({ format, thoughts, json, timeout }: DisplayFlags) {
  return {
    format: format ?? "text",
    thoughts: thoughts === true,
    json: json === true,
    timeoutMs: timeout ?? null,
  };
}

const spawnExamples = `
Without a prompt the agent is started and waits, and the session id is printed. If a
session with that name is open, the command continues it. Rules answer the agent's
permission requests: by default, reading and searching are allowed, and you are
asked about the rest.

With --client-files and --client-terminals the agent can use files and commands
through the gateway: the same rules apply to them, and each command is a run of its
own that ends with the agent. Without them the agent uses its own.
${answerHelp}
Examples:
  holdfast acp spawn codex --name fix --approve-reads "why does the build fail?"
  holdfast acp spawn gemini --mode run --format quiet "one word: what is this?"
  holdfast acp spawn --agent-command 'node ./my-agent.js' "hello"
`;

/** `--no-wait` is the former spelling of `--detach`. */
type PromptFlags = DisplayFlags & NotifyFlags & DetachFlags & { readonly wait: boolean };

export function addPrompt(acp: Command, setExitCode: SetExitCode): void {
  const prompt = acp
    .command("prompt")
    .summary("send a prompt to the agent of a session, and show its answer")
    .description("Send a prompt to the agent of a session, and show its answer.")
    .argument("<session>", "its name or id")
    .argument("<prompt>", "the prompt; - reads it from stdin")
    .addOption(new Option("--no-wait", "the former name of --detach").hideHelp());
  addDetachOption(prompt, "do not wait for the answer; prints the turn id");
  addNotifyOptions(prompt);
  addDisplayOptions(prompt)
    .addHelpText("after", answerHelp)
    .action(async (session: string, words: string, flags: PromptFlags) => {
      const { promptSession } = await import("./prompt.js");
      const wait = flags.wait && !isDetached(flags);
      if (wait) rejectNotifyOptions(flags, "--detach");
      setExitCode(
        await promptSession({
          session,
          prompt: words,
          wait,
          notification: notifyBody(flags),
          ...displayOptions(flags),
        }),
      );
    });
}

interface SpawnFlags extends DisplayFlags, NotifyFlags, DetachFlags {
  readonly name?: string;
  readonly agentCommand?: string;
  readonly mode: "run" | "session";
  readonly cwd: string;
  readonly clearEnv?: true;
  readonly approveAll?: true;
  readonly approveReads?: true;
  readonly denyAll?: true;
  readonly reapTools?: true;
  readonly reapAlways?: true;
  readonly clientFiles?: (typeof CLIENT_FILE_ACCESS)[number];
  readonly clientRoot?: readonly string[];
  readonly clientTerminals?: boolean;
}

export function addSpawn(acp: Command, setExitCode: SetExitCode): void {
  const spawn = acp
    .command("spawn")
    .summary("open a session with an agent")
    .description("Open a session with an agent, and send it a prompt.")
    .argument("[agent]", "an agent of the catalogue that speaks ACP (holdfast agents)")
    .argument("[prompt]", "the prompt; - reads it from stdin")
    .option("--agent-command <command>", "any command instead of an agent of the catalogue, in shell syntax")
    .option("--name <name>", "the name of the session")
    .addOption(
      new Option("--mode <mode>", "keep the session open after the first answer, or close it")
        .choices(["session", "run"])
        .default("session"),
    )
    .option("--cwd <directory>", "the agent's working directory", ".")
    .option("--clear-env", "use the environment of the gateway instead of this one")
    .addOption(
      new Option("--approve-all", "allow every permission request").conflicts(["approveReads", "denyAll"]),
    )
    .addOption(
      new Option("--approve-reads", "allow reading and searching, ask about the rest").conflicts(["denyAll"]),
    )
    .option("--deny-all", "deny every permission request")
    .option("--reap-tools", "end processes that a cancelled turn leaves running")
    .option("--reap-always", "end processes that any turn leaves running")
    .addOption(
      new Option(
        "--client-files <access>",
        "let the agent read, or read and write, files through the gateway",
      ).choices(CLIENT_FILE_ACCESS),
    )
    .option(
      "--client-root <directory>",
      "allow files in this directory, besides --cwd (repeatable)",
      collectDirectories,
    )
    .option("--client-terminals", "let the agent run commands through the gateway, each as a run")
    .option("--no-client-terminals", "do not, even if the catalogue says so");
  addDetachOption(spawn, "do not wait for the answer; prints the turn id");
  addNotifyOptions(spawn);
  addDisplayOptions(spawn)
    .addHelpText("after", spawnExamples)
    .action(async (agent: string | undefined, prompt: string | undefined, flags: SpawnFlags) => {
      const code = await runSpawn(agent, prompt, flags).catch(reportError);
      setExitCode(flags.agentCommand === undefined ? noticeInstallHint(code) : code);
    });
}

async function runSpawn(
  first: string | undefined,
  second: string | undefined,
  flags: SpawnFlags,
): Promise<number> {
  const { agentCommand: command, name = null } = flags;
  if (command !== undefined && second !== undefined)
    throw new BadInput(
      "agent",
      "--agent-command replaces the agent: give only one of them. Nothing was started",
    );
  const known = command === undefined ? (first ?? "") : null;
  if (known === "" || (known?.length ?? 0) > MAX_AGENT_NAME_CHARS)
    throw new BadInput(
      "agent",
      "the agent is missing: give a name of the catalogue, or --agent-command. Nothing was started",
    );
  if (command?.trim() === "")
    throw new BadInput("agent-command", "the command is empty; nothing was started");
  if (!isDetached(flags)) rejectNotifyOptions(flags, "--detach");
  const { spawnSession } = await import("./spawn.js");
  return spawnSession({
    agent: known === null ? { command: command ?? "" } : { name: known },
    prompt: (known === null ? first : second) ?? null,
    name,
    mode: flags.mode,
    cwd: flags.cwd,
    clearEnv: flags.clearEnv === true,
    background: isDetached(flags),
    notification: notifyBody(flags),
    permissions: permissionMode(flags),
    client: clientOptions(flags),
    reap: flags.reapAlways === true ? "always" : flags.reapTools === true ? "cancel" : "asked",
    ...displayOptions(flags),
  });
}

const MAX_AGENT_NAME_CHARS = 200;

function collectDirectories(one: string, before: readonly string[] = []): readonly string[] {
  return [...before, resolve(one)];
}

/** Null: none of the options was given. */
function clientOptions({ clientFiles: files, clientRoot: roots, clientTerminals: terminals }: SpawnFlags) {
  if (files === undefined && roots === undefined && terminals === undefined) return null;
  return {
    ...(files === undefined ? {} : { files }),
    ...(roots === undefined ? {} : { roots: [...roots] }),
    ...(terminals === undefined ? {} : { terminals }),
  };
}

function permissionMode({ approveAll, approveReads, denyAll }: SpawnFlags) {
  if (approveAll === true) return "approve-all";
  if (approveReads === true) return "approve-reads";
  return denyAll === true ? "deny-all" : null;
}
