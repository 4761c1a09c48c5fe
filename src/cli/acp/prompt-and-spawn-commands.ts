import { resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { BadInput } from "../../errors.js";
import { CLIENT_FILE_ACCESS } from "../../model/enums.js";
import { noticeInstallHint } from "../agents/command.js";
import { addNotifyOptions } from "../client/notify-options.js";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";
import {
  addDetachOption,
  asOptionParser,
  collectPairs,
  collectValues,
  noOutputOption,
} from "../options/parsers.js";
import { addExecRuleOptions } from "../options/exec-rule-options.js";
import { parseDuration } from "../options/durations-and-sizes.js";
import { reportError } from "../print/errors-and-notices.js";
import { parseRulePattern, PATTERN_HELP } from "./permissions/rule-pattern.js";
import type { SpawnFlags, SpawnModes } from "./spawn.js";
import { OUTPUT_FORMATS } from "./view/notice-texts.js";

export const answerHelp = `
Ctrl-C cancels the turn and waits for its end; a second Ctrl-C leaves the rest to the
gateway. On a terminal you are asked about the agent's permission requests.

A word @path in the prompt sends a link to that file, if it exists.

Formats: text, shown as it arrives; json, the agent's frames, one object per
line; quiet, only the answer. --json prints the record of the turn when it has ended.

Exit status: 0 answered, 1 the agent failed or refused, 3 it stopped early, 121 its
process ended during the turn, 122 cancelled and not confirmed, 123 answered without
the context of earlier turns, 124 timeout, 125 Holdfast failed, 130 cancelled.
`;

/** Options of commands that show an answer. */
export function addDisplayOptions(command: Command): Command {
  return command
    .option(
      "--timeout <duration>",
      "end the agent if it has not answered within this time, which includes its start",
      asOptionParser(parseTurnTimeout),
    )
    .addOption(
      noOutputOption("end the agent if it sends nothing for this time (default: no limit)", parseTurnTimeout),
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

const spawnExamples = `
Without a prompt the agent is started and waits, and the session id is printed. If a
session with that name is open, the command continues it. Rules answer the agent's
permission requests: by default, reading and searching are allowed, and you are
asked about the rest. --deny, --ask and --allow are tried first, in this order.
${PATTERN_HELP}
--model, --mode and --option choose among what the agent offers; "acp show" lists it
and "acp set" changes it later. They are set again when the agent is restarted.

Exec rules (--exec-allow, --exec-ask, --exec-deny, as in holdfast sessions create)
decide which commands the agent may execute through Holdfast with its token, and
which agents it may start. The first rule that matches decides, in the order of the
options. A command that no rule matches waits for approval (holdfast approvals).

With --client-files and --client-terminals the agent can use files and commands
through the gateway: the same rules apply to them, and each command is a run of its
own that ends with the agent. Without them the agent uses its own.

MCP servers are started by the agent, and end with it. Servers of the config file
([mcp.<name>]) are passed, too; one given here with the same name replaces it.
${answerHelp}
Examples:
  holdfast acp spawn codex --name fix --approve-reads "why does the build fail?"
  holdfast acp spawn codex --allow 'execute:npm test*' --deny 'execute:git push*' "…"
  holdfast acp spawn gemini --mode run --format quiet "one word: what is this?"
  holdfast acp spawn claude --model opus --mode plan "how would you split this file?"
  holdfast acp spawn --agent-command 'node ./my-agent.js' "hello"
  holdfast acp spawn claude --mcp 'files=npx -y @modelcontextprotocol/server-filesystem .'
`;

/** Options for a long prompt, and for files that are sent with a prompt. */
export function addContentOptions(command: Command): void {
  command
    .option("-f, --prompt-file <file>", "read the prompt from a file; - is stdin")
    .option("--file <file>", "send a file with the prompt (repeatable)", collectValues)
    .option("--image <file>", "send an image, if the agent supports images (repeatable)", collectValues)
    .option("--audio <file>", "send a recording, if the agent supports audio (repeatable)", collectValues)
    .option("--link <uri>", "send a link, which the agent reads by itself (repeatable)", collectValues);
}

export function addPrompt(acp: Command, setExitCode: SetExitCode): void {
  const prompt = acp
    .command("prompt")
    .summary("send a prompt to the agent of a session, and show its answer")
    .description("Send a prompt to the agent of a session, and show its answer.")
    .argument("<session>", "its name or id")
    .argument("[prompt]", "the prompt; - reads it from stdin")
    .addOption(new Option("--no-wait", "the former name of --detach").hideHelp());
  addDetachOption(prompt, "do not wait for the answer; prints the turn id");
  addNotifyOptions(prompt);
  addContentOptions(prompt);
  addDisplayOptions(prompt)
    .addHelpText("after", answerHelp)
    .action(lazyAction(setExitCode, () => import("./prompt.js"), "promptSession"));
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
      new Option(
        "--mode <mode>",
        "session: keep the session open after the first answer; run: close it; any other word: the agent's mode (repeatable)",
      )
        .argParser(collectModes)
        .default({ session: "session" }, '"session"'),
    )
    .option(
      "--resume <agent-session>",
      "continue a session that the agent has stored (holdfast acp agent-sessions), also one made without Holdfast",
    )
    .option("--fork", "with --resume: continue a copy of it (unstable in the protocol)")
    .option(
      "--add-dir <directory>",
      "another directory for the agent's session, besides --cwd (repeatable)",
      collectDirectories,
    )
    .option("--model <model>", "the agent's model, by id or name")
    .option(
      "--option <option=value>",
      "a config option of the agent, such as thought_level=high (repeatable)",
      collectPairs,
    );
  addPermissionOptions(spawn)
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
    .option("--no-client-terminals", "offer no terminals, even if the catalogue does")
    .option(
      "--mcp <name=command>",
      "an MCP server for the agent: a command in shell syntax, or a URL (repeatable)",
      collectValues,
    )
    .option(
      "--mcp-config <file>",
      "the MCP servers of a JSON file with mcpServers (repeatable)",
      collectValues,
    )
    .addOption(yesOption());
  const execRules = addExecRuleOptions(spawn, "exec-");
  addDetachOption(spawn, "do not wait for the answer; prints the turn id");
  addNotifyOptions(spawn);
  addContentOptions(spawn);
  addDisplayOptions(spawn)
    .addHelpText("after", spawnExamples)
    .action(async (agent: string | undefined, prompt: string | undefined, flags: SpawnFlags) => {
      const { spawnSession } = await import("./spawn.js");
      const given = { ...flags, execRules: execRules() };
      const code = await spawnSession(agent, prompt, given).catch(reportError);
      setExitCode(flags.agentCommand === undefined ? noticeInstallHint(code) : code);
    });
}

/** Where the agent works, and how its permission requests are answered. */
export function addPermissionOptions(command: Command): Command {
  return command
    .option("--cwd <directory>", "the agent's working directory", ".")
    .option("--clear-env", "use the environment of the gateway instead of this one")
    .addOption(
      new Option("--approve-all", "allow every permission request").conflicts(["approveReads", "denyAll"]),
    )
    .addOption(
      new Option("--approve-reads", "allow reading and searching, ask about the rest").conflicts(["denyAll"]),
    )
    .option("--deny-all", "deny every permission request")
    .option("--allow <pattern>", "allow these permission requests (repeatable)", collectPatterns)
    .option(
      "--deny <pattern>",
      "deny these permission requests, before any other rule (repeatable)",
      collectPatterns,
    )
    .option("--ask <pattern>", "ask about these permission requests (repeatable)", collectPatterns);
}

export function yesOption(): Option {
  return new Option("-y, --yes", "fetch an agent that is not installed from npm with npx, without asking");
}

function collectPatterns(pattern: string, before: readonly string[] = []): readonly string[] {
  asOptionParser(parseRulePattern)(pattern);
  return [...before, pattern];
}

/** `run` and `session` are modes of the session, every other word is one of the agent. */
function collectModes(mode: string, before: SpawnModes): SpawnModes {
  if (mode === "") throw new InvalidArgumentError("Write session, run, or a mode of the agent.");
  return mode === "run" || mode === "session" ? { ...before, session: mode } : { ...before, agent: mode };
}

function collectDirectories(one: string, before: readonly string[] = []): readonly string[] {
  return [...before, resolve(one)];
}
