import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { BadInput } from "../../errors.js";
import { CLIENT_FILE_ACCESS } from "../../model/enums.js";
import { noticeInstallHint } from "../agents/command.js";
import { addNotifyOptions, notifyBody, type NotifyFlags } from "../client/notify-options.js";
import type { SetExitCode } from "../options/parsers.js";
import { reportError } from "../print/stderr.js";
import {
  addDisplayOptions,
  answerHelp,
  type DisplayFlags,
  displayOptions,
  rejectNotifyOptions,
} from "./display-options.js";

const spawnExamples = `
Without a prompt the agent is started and waits; its session's id is printed.
A session of that name that is open is gone on with. What the agent asks leave
for is answered by rules: without one of the three options, reading and
searching are allowed, and you are asked about the rest.

An agent uses files and commands by itself, and is offered none of the
gateway's. With --client-files and --client-terminals it is: then what it reads,
writes and runs through the gateway is subject to the same rules, and a command
is a run of its own, which ends with the agent.
${answerHelp}
Examples:
  holdfast acp spawn codex --name fix --approve-reads "why does the build fail?"
  holdfast acp spawn gemini --mode run --format quiet "one word: what is this?"
  holdfast acp spawn --agent-command 'node ./my-agent.js' "hello"
`;

interface SpawnFlags extends DisplayFlags, NotifyFlags {
  readonly name?: string;
  readonly agentCommand?: string;
  readonly mode: "run" | "session";
  readonly cwd: string;
  readonly clearEnv?: true;
  readonly background?: true;
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
    .description("Open a session with an agent, and give it a prompt.")
    .argument("[agent]", "a known one that speaks ACP (holdfast agents list)")
    .argument("[prompt]", "what to tell it; - reads it from stdin")
    .option("--agent-command <command>", "instead of a known agent: any command, as a shell takes it")
    .option("--name <name>", "what the session is called")
    .addOption(
      new Option("--mode <mode>", "go on after the first answer, or be closed with it")
        .choices(["session", "run"])
        .default("session"),
    )
    .option("--cwd <directory>", "where the agent works", ".")
    .option("--clear-env", "start the agent with the gateway's environment, not with this one")
    .option("-b, --background", "do not wait for the answer; prints the turn's id")
    .addOption(
      new Option("--approve-all", "allow all that the agent asks leave for").conflicts([
        "approveReads",
        "denyAll",
      ]),
    )
    .addOption(
      new Option("--approve-reads", "allow it to read and search, ask about the rest").conflicts(["denyAll"]),
    )
    .option("--deny-all", "allow nothing that it asks leave for")
    .option("--reap-tools", "end what a cancelled turn has left running")
    .option("--reap-always", "end what any turn has left running")
    .addOption(
      new Option(
        "--client-files <access>",
        "let it read, or read and write, files through the gateway",
      ).choices(CLIENT_FILE_ACCESS),
    )
    .option("--client-root <directory>", "there, too, and not only in --cwd (repeatable)", collectDirectories)
    .option("--client-terminals", "let it run commands through the gateway, each a run of its own")
    .option("--no-client-terminals", "not that, whatever the catalogue says");
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
      "--agent-command stands in the agent's place: say one of them. Nothing was started",
    );
  const known = command === undefined ? (first ?? "") : null;
  if (known === "" || (known?.length ?? 0) > MAX_AGENT_NAME_CHARS)
    throw new BadInput(
      "agent",
      "say which agent: one that is known, or --agent-command. Nothing was started",
    );
  if (command?.trim() === "")
    throw new BadInput("agent-command", "the command is empty; nothing was started");
  if (flags.background !== true) rejectNotifyOptions(flags, "--background");
  const { spawnSession } = await import("./spawn.js");
  return spawnSession({
    agent: known === null ? { command: command ?? "" } : { name: known },
    prompt: (known === null ? first : second) ?? null,
    name,
    mode: flags.mode,
    cwd: flags.cwd,
    clearEnv: flags.clearEnv === true,
    background: flags.background === true,
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

/** Null: nothing was said of it. */
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
