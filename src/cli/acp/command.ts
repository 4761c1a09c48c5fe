import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { BadInput } from "../../errors.js";
import { CLIENT_FILE_ACCESS } from "../../model/acp.js";
import { noticeInstallHint } from "../agents/command.js";
import {
  addNotifyOptions,
  misplacedNotifyOption,
  notifyBody,
  type NotifyFlags,
} from "../client/notify-options.js";
import { asOptionParser, positiveIntegerUpTo, rejectUnknownSubcommand } from "../options/parsers.js";
import { parseDuration } from "../options/units.js";
import { reportError } from "../print/stderr.js";
import type { SetExitCode } from "../program.js";
import { OUTPUT_FORMATS, type OutputFormat } from "./view/formats.js";

const about = `
A session is an agent that goes on from one prompt to the next. One prompt is
in flight at a time, others wait for it. The agent and all that it starts are
owned: cancel ends a turn and leaves the agent, close ends everything.

A session is named by its name, its id, or a beginning of either that only one
session has. One open session has a name at a time.

Examples:
  holdfast acp spawn opencode --name site "what does this project do?"
  holdfast acp prompt site "write a test for it"
  git diff | holdfast acp prompt site -
  holdfast acp cancel site --reap-tools
  holdfast acp close site
`;

const answerHelp = `
Ctrl-C cancels the turn and waits for its end; again, it leaves that to the
gateway. On a terminal you are asked there what the agent asks leave for.

Formats: text, to be read as it comes; json, the agent's frames as they came,
one object per line; quiet, the answer alone when there is one. --json instead
prints the record of the turn when it has ended.

Exit status: 0 answered; 1 the agent failed or refused; 3 it stopped early;
121 interrupted, its process ended; 122 told to stop, and it did not say that
it has; 123 answered, but it knew nothing of what was said before; 124 timeout;
125 holdfast failed; 130 cancelled.
`;

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

interface DisplayFlags {
  readonly format?: OutputFormat;
  readonly thoughts?: true;
  readonly json?: true;
  readonly timeout?: number;
}

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

type PromptFlags = DisplayFlags & NotifyFlags & { readonly wait: boolean };

export function addAcpCommand(program: Command, setExitCode: SetExitCode): void {
  const acp = program
    .command("acp")
    .summary("agents that speak ACP: spawn, prompt, cancel, close, …")
    .description("Sessions with agents that speak the Agent Client Protocol.")
    .addHelpText("after", about);
  addSpawn(acp, setExitCode);
  addPrompt(acp, setExitCode);
  addCancelAndClose(acp, setExitCode);
  addReadCommands(acp, setExitCode);
  addPermissions(acp, setExitCode);
}

function addSpawn(acp: Command, setExitCode: SetExitCode): void {
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

function addPrompt(acp: Command, setExitCode: SetExitCode): void {
  const prompt = acp
    .command("prompt")
    .summary("give a session's agent a prompt, and show its answer")
    .description("Give a session's agent a prompt, and show what it answers.")
    .argument("<session>", "its name or id")
    .argument("<prompt>", "what to tell it; - reads it from stdin")
    .option("--no-wait", "do not wait for the answer; prints the turn's id");
  addNotifyOptions(prompt);
  addDisplayOptions(prompt)
    .addHelpText("after", answerHelp)
    .action(async (session: string, words: string, flags: PromptFlags) => {
      const { promptSession } = await import("./prompt.js");
      const { wait } = flags;
      if (wait) rejectNotifyOptions(flags, "--no-wait");
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

function addCancelAndClose(acp: Command, setExitCode: SetExitCode): void {
  acp
    .command("cancel")
    .summary("cancel a session's turn; the agent stays")
    .description(
      "Cancel the turn that runs, or else the next that waits. Waits for its end; the agent stays.",
    )
    .argument("<session>", "its name or id")
    .option("--turn <id>", "that one, running or waiting")
    .option("--reap-tools", "end what the turn has left running")
    .option("--json", "the turn as JSON")
    .addHelpText(
      "after",
      "\nExit status: 0; 1 there is nothing to cancel; 3 something it left would not go;\n122 the agent did not say that it has stopped.\n",
    )
    .action(
      async (
        session: string,
        {
          turn,
          reapTools,
          json,
        }: { readonly turn?: string; readonly reapTools?: true; readonly json?: true },
      ) => {
        const { cancelTurn } = await import("./cancel.js");
        setExitCode(
          await cancelTurn({
            session,
            turn: turn ?? null,
            reapTools: reapTools === true,
            json: json === true,
          }),
        );
      },
    );
  acp
    .command("close")
    .summary("close a session: nothing of it is left")
    .description("Close a session. Says so when every process of it is proven to be gone.")
    .argument("<session>", "its name or id")
    .option("--discard", "also what the agent keeps of it, where the agent offers that")
    .option("--json", "the session as JSON")
    .action(async (session: string, { discard, json }: { readonly discard?: true; readonly json?: true }) => {
      const { closeAcpSession } = await import("./close.js");
      setExitCode(await closeAcpSession(session, discard === true, json === true));
    });
}

function addReadCommands(acp: Command, setExitCode: SetExitCode): void {
  acp
    .command("list")
    .summary("sessions that are open, newest first")
    .description("ACP sessions that may be seen, newest first. Only reads.")
    .option("--all", "those that are closed, too")
    .option("--limit <n>", "at most this many", positiveIntegerUpTo(1_000), 100)
    .option("--json", "the records as a JSON array")
    .action(
      async ({ all, limit, json }: { readonly all?: true; readonly limit: number; readonly json?: true }) => {
        const { printAcpSessions } = await import("./sessions.js");
        setExitCode(await printAcpSessions(all === true, limit, json === true));
      },
    );
  acp
    .command("show")
    .summary("one session: its turn, its queue, its processes")
    .description("One session: its turn and queue, what it asks, its processes. Only reads.")
    .argument("<session>", "its name or id")
    .option("--json", "as JSON")
    .action(async (session: string, { json }: { readonly json?: true }) => {
      const { showAcpSession } = await import("./sessions.js");
      setExitCode(await showAcpSession(session, json === true));
    });
  acp
    .command("history")
    .summary("what was asked and answered")
    .description("What was asked and answered in a session, oldest first. Only reads.")
    .argument("<session>", "its name or id")
    .option("--limit <n>", "the newest so many", positiveIntegerUpTo(1_000), 100)
    .option("--json", "the turns as a JSON array")
    .action(async (session: string, { limit, json }: { readonly limit: number; readonly json?: true }) => {
      const { showAcpHistory } = await import("./sessions.js");
      setExitCode(await showAcpHistory(session, limit, json === true));
    });
  acp
    .command("watch")
    .summary("what happens in a session, as it happens")
    .description(
      "What has happened in a session and what happens, until it is closed. Only reads, until you answer a question.",
    )
    .argument("<session>", "its name or id")
    .option("--new", "only what comes from now on")
    .option("--thoughts", "all of the agent's thoughts, not only how they begin")
    .addOption(formatOption())
    .option("--json", "the same as --format json")
    .action(async (session: string, flags: DisplayFlags & { readonly new?: true }) => {
      const { watchSession } = await import("./watch.js");
      const format = flags.json === true ? "json" : (flags.format ?? "text");
      const after = flags.new === true ? null : 0;
      setExitCode(await watchSession({ session, format, thoughts: flags.thoughts === true, after }));
    });
}

function addPermissions(acp: Command, setExitCode: SetExitCode): void {
  const permissions = acp
    .command("permissions")
    .summary("what agents ask leave for: list, allow, deny")
    .description("What agents ask leave for.")
    .addHelpText(
      "after",
      '\nA request that is not answered within five minutes is denied. Only the operator\ncan answer. If a row of the list does not show the whole request (column SHOWN),\n"allow" needs the digest that "permissions show" prints at its end.\n\nExit status of allow and deny: 0 done, 1 no such request, 3 the answer came too late.\n',
    );
  rejectUnknownSubcommand(permissions);
  permissions
    .command("list", { isDefault: true })
    .summary("questions that wait, with when they expire")
    .description("Questions that wait for an answer, and when each expires. Only reads.")
    .option("--session <session>", "only this session's")
    .option("--all", "those that were answered, too")
    .option("--json", "as a JSON array")
    .action(
      async ({
        session,
        all,
        json,
      }: {
        readonly session?: string;
        readonly all?: true;
        readonly json?: true;
      }) => {
        const { printPermissions } = await import("./permissions.js");
        setExitCode(
          await printPermissions({ session: session ?? null, all: all === true, json: json === true }),
        );
      },
    );
  permissions
    .command("show")
    .summary("show a whole request: command, directory, variables, input")
    .description(
      "Show everything that an agent asks for: each argument, the directory and the variables of a command, or everything that the agent says about its own tool. Secrets are masked inside one word; control and invisible characters are shown as escapes.",
    )
    .argument("<permission>", "its id")
    .option("--reveal", "mask no secrets")
    .option("--json", "as JSON")
    .action(async (id: string, flags: { readonly reveal?: true; readonly json?: true }) => {
      const { showPermission } = await import("./permissions.js");
      setExitCode(await showPermission(id, flags));
    });
  for (const verdict of ["allow", "deny"] as const)
    permissions
      .command(verdict)
      .summary(verdict === "allow" ? "let the agent do it" : "do not")
      .description(verdict === "allow" ? "Let the agent do it, this once." : "Do not let the agent do it.")
      .argument("<permission>", "its id")
      .option(
        "--digest <digest>",
        "answer only the request with this digest, which `permissions show` prints",
      )
      .option("--json", "the question and its decision as JSON")
      .action(async (id: string, flags: { readonly json?: true; readonly digest?: string }) => {
        const { answerPermission } = await import("./permissions.js");
        setExitCode(await answerPermission(id, verdict, flags));
      });
}

function rejectNotifyOptions(flags: NotifyFlags, instead: string): void {
  const misplaced = misplacedNotifyOption(flags);
  if (misplaced !== null) throw new BadInput("option", `${misplaced}: add ${instead}; nothing was sent`);
}

/** What every command has that shows an answer. */
function addDisplayOptions(command: Command): Command {
  return command
    .option(
      "--timeout <duration>",
      "end the agent when it has not answered by then",
      asOptionParser(parseTurnTimeout),
    )
    .option("--thoughts", "all of the agent's thoughts, not only how they begin")
    .addOption(formatOption())
    .addOption(new Option("--json", "instead, the record when the turn has ended").conflicts("format"));
}

function formatOption(): Option {
  return new Option("--format <format>", "how the answer is shown (default: text)").choices(OUTPUT_FORMATS);
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
