import { isAbsolute } from "node:path";
import { Command, CommanderError } from "commander";
import { StoreUnreadable } from "../errors.js";
import { packageVersion } from "../home/package.js";
import { onReadableSecret } from "../home/readable-secrets.js";
import { requireSafeHome, resolveHome } from "../home/state-directory.js";
import { requireOriginal } from "../store/open-state-directory.js";
import { isStoreFailure } from "../store/open.js";
import { addAcpCommand } from "./acp/command.js";
import { addAgentCommand, addAgentsCommand } from "./agents/command.js";
import { addCompletionCommand } from "./completion/command.js";
import { addGatewayCommand, addGatewaysCommand } from "./gateway/command.js";
import { addNotifyCommand } from "./notify/command.js";
import type { SetExitCode } from "./options/parsers.js";
import { exitCodes } from "./print/exit-code.js";
import { formatNotice, notice } from "./print/stderr.js";
import { print } from "./print/stdout.js";
import { addProcessCommand } from "./process/command.js";
import {
  addAttachCommand,
  addEventsCommand,
  addLogsCommand,
  addPsCommand,
  addScreenCommand,
} from "./process/top-level-commands.js";
import { addRunCommand } from "./run/command.js";
import { addRunsCommand } from "./runs/command.js";
import { addDoctorCommand } from "./doctor/command.js";
import { addWhoCommand } from "./runs/who-command.js";
import { addUnmanagedCommand } from "./unmanaged/command.js";
import { addConfigCommand } from "./config/command.js";
import { addServiceCommand } from "./service/command.js";
import { addApprovalsCommand } from "./approvals/command.js";
import { addSessionsCommand } from "./sessions/command.js";
import { addStateCommand } from "./state/command.js";
import { addStoreCommand } from "./store/command.js";
import { addTasksCommand } from "./tasks/command.js";

/** Of a command of a command, too, which commander's own does not know. */
export function addHelpCommand(program: Command): void {
  program
    .helpCommand(false)
    .command("help")
    .summary("print help for a command")
    .description("Print help for a command.")
    .argument("[command...]", "its words: service adopt")
    .action((words: readonly string[]) => {
      let command = program;
      for (const word of words) {
        const next = command.commands.find((each) => each.name() === word);
        if (next === undefined)
          program.error(`error: there is no command '${words.join(" ")}'; holdfast help lists them`);
        else command = next;
      }
      command.help();
    });
}

/** Parse a command line, do what it says, return the exit code. */
export async function runProgram(argv: readonly string[]): Promise<number> {
  let code = 0;
  let path: readonly string[] = [];
  const program = buildProgram((finished) => {
    code = finished;
  });
  program.hook("preAction", (_, command) => {
    path = commandPath(command);
  });
  try {
    await program.parseAsync(truncateAtUnknownCommand(program, argv));
    return code;
  } catch (error) {
    // Help and version end here too, with 0.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitCodes.usage;
    throw isLookup(path) && isStoreFailure(error) && !(error instanceof StoreUnreadable)
      ? new StoreUnreadable(path.join(" "), error)
      : error;
  }
}

/** Commands that look up a record: if the store cannot be read, they fail with STORE_UNREADABLE. */
const LOOKUP_COMMANDS: ReadonlySet<string> = new Set([
  ...["runs", "process", "logs", "screen", "events", "who", "attach", "tasks", "sessions", "acp"],
  ...["approvals", "gateways"],
]);

/** Commands of those groups that start something: they keep their own exit codes. */
const START_COMMANDS: ReadonlySet<string> = new Set(["acp spawn", "acp prompt", "sessions create"]);

function isLookup(path: readonly string[]): boolean {
  return LOOKUP_COMMANDS.has(path[0] ?? "") && !START_COMMANDS.has(path.slice(0, 2).join(" "));
}

/** What is said after a command that there is not belongs to nobody: its --help, too, is no help. */
function truncateAtUnknownCommand(program: Command, argv: readonly string[]): string[] {
  let command = program;
  for (const [at, word] of argv.entries()) {
    if (at < 2) continue;
    if (command.commands.length === 0 || word.startsWith("-")) break;
    const next = command.commands.find((each) => each.name() === word);
    if (next === undefined) return argv.slice(0, at + 1);
    command = next;
  }
  return [...argv];
}

type AddCommand = (program: Command, setExitCode: SetExitCode) => void;

/** By what a person wants to do. */
const GROUPS: readonly (readonly [heading: string, ...adders: AddCommand[]])[] = [
  ["Run things:", addRunCommand],
  [
    "Look at what runs and what ran:",
    addPsCommand,
    addRunsCommand,
    addLogsCommand,
    addScreenCommand,
    addEventsCommand,
    addWhoCommand,
  ],
  ["Steer:", addAttachCommand, addProcessCommand],
  ["Clean up:", addUnmanagedCommand],
  [
    "Agents and sessions:",
    addAgentCommand,
    addAgentsCommand,
    addAcpCommand,
    addSessionsCommand,
    addApprovalsCommand,
    addTasksCommand,
    addNotifyCommand,
  ],
  [
    "Gateway and setup:",
    addGatewayCommand,
    addGatewaysCommand,
    addServiceCommand,
    addConfigCommand,
    addStateCommand,
    addStoreCommand,
    addDoctorCommand,
    addCompletionCommand,
  ],
];

/** The whole command line, with nothing done yet. */
export function buildProgram(setExitCode: SetExitCode): Command {
  const program = new Command("holdfast")
    .description("Own every process your agents start, until each is provably gone.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print help")
    // Options of the commands that are run belong to them, so our own must come before them.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: print,
      outputError: (text, write) => write(`${formatNotice(toSingleLine(text), "red")}\n`),
    })
    .addHelpText(
      "after",
      `\nState is kept in $HOLDFAST_HOME, else in the platform's directory for it; records in the PostgreSQL\ndatabase $HOLDFAST_DATABASE_URL, or database.url of the config file, where one is set.\nA command that looks up a record exits with 5 if the store cannot be read, and with 1 if there is no such record.`,
    );
  for (const [heading, ...adders] of GROUPS) {
    program.commandsGroup(heading);
    for (const add of adders) add(program, setExitCode);
  }
  program.hook("preAction", async (_, command) => {
    const path = commandPath(command);
    // These two commands report readable secrets themselves.
    if (path[0] !== "doctor" && path.join(" ") !== "gateway run")
      onReadableSecret((message) => notice(message, "yellow"));
    if (!COPY_SAFE_COMMANDS.has(path[0] ?? "")) await rejectForeignState();
  });
  removeHelpCommands(program);
  addHelpCommand(program);
  return program;
}

/** Commands that read nothing of a state directory, or say themselves that it is a copy. */
const COPY_SAFE_COMMANDS: ReadonlySet<string> = new Set(["help", "completion", "config", "doctor", "state"]);

/** Below the program: `["runs", "list"]`. */
function commandPath(command: Command): string[] {
  return command.parent === null ? [] : [...commandPath(command.parent), command.name()];
}

/** Checked here for all commands: no command may use a copy of a state directory, or a directory that another user controls. */
async function rejectForeignState(): Promise<void> {
  const home = resolveHome();
  // Checked before anything in the directory is read. Other errors of the directory are reported by the command that uses it.
  if (isAbsolute(home)) requireSafeHome(home);
  const { kind, recorded } = await requireOriginal(home);
  if (kind === "moved")
    notice(
      `this state directory was moved here from ${recorded?.path}; no run is open in it, so it is used as it is`,
      "dim",
    );
}

/** Ours knows commands of commands. */
function removeHelpCommands(command: Command): void {
  for (const each of command.commands) removeHelpCommands(each.helpCommand(false));
}

/** Commander says `error: …` and puts its suggestion on a line of its own. */
function toSingleLine(text: string): string {
  return text
    .trim()
    .replace(/^error: /, "")
    .replace(/\n\(Did you mean/, " (did you mean")
    .replaceAll(/\s*\n\s*/g, " ");
}
