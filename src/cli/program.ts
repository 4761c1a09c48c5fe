import { Command, CommanderError } from "commander";
import { StoreUnreadable } from "../errors.js";
import { packageVersion } from "../home/package.js";
import { isStoreFailure } from "../store/open.js";
import { addAcpCommand } from "./acp/command.js";
import { expandShortForm, mayBeShortForm } from "./options/acp-short-form.js";
import { addAgentCommand, addAgentsCommand } from "./agents/command.js";
import { addApprovalsCommand } from "./approvals/command.js";
import { addCompletionCommand } from "./completion/command.js";
import { addConfigCommand } from "./config/command.js";
import { addDashboardCommand } from "./dashboard/command.js";
import { addDoctorCommand } from "./doctor/command.js";
import { addGatewayCommand, addGatewaysCommand } from "./gateway/command.js";
import { addMcpCommand } from "./mcp/command.js";
import { addNotifyCommand } from "./notify/command.js";
import { findCommand, findUnknownCommand, helpConfiguration, unknownCommandText } from "./options/help.js";
import type { SetExitCode } from "./options/command-definition.js";
import { exitCodes } from "./print/exit-code.js";
import { formatNotice } from "./print/errors-and-notices.js";
import { print } from "./print/write-output.js";
import { addProcessCommand } from "./process/command.js";
import {
  addAttachCommand,
  addEventsCommand,
  addInspectCommand,
  addLogsCommand,
  addPsCommand,
  addRemoveCommand,
  addScreenCommand,
  addStopCommands,
  addWaitCommand,
  addWhoCommand,
} from "./process/top-level-commands.js";
import { addRunCommand } from "./run/command.js";
import { addRunsCommand } from "./runs/command.js";
import { addServiceCommand } from "./service/command.js";
import { addSessionsCommand } from "./sessions/command.js";
import { addShellenvCommand } from "./shellenv/command.js";
import { addStateCommand } from "./state/command.js";
import { rejectForeignState, reportReadableSecrets } from "./check-state-directory.js";
import { addStoreCommand } from "./store/command.js";
import { addTasksCommand } from "./tasks/command.js";
import { addUnmanagedCommand } from "./unmanaged/command.js";

/** Parses a command line, executes it, and returns the exit code. */
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
    // Before commander: its own message about an unknown command knows only commands that are spelled alike, and
    // `--help` after an unknown command is not a request for help on the group.
    const words = await expandAcpAgent(program, argv.slice(2));
    const unknown = findUnknownCommand(program, words);
    if (unknown !== null) unknown.group.error(unknownCommandText(unknown));
    await program.parseAsync([...argv.slice(0, 2), ...words]);
    return code;
  } catch (error) {
    // Help and version end here too, with 0.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitCodes.usage;
    throw isLookup(path) && isStoreFailure(error) && !(error instanceof StoreUnreadable)
      ? new StoreUnreadable(path.join(" "), error)
      : error;
  }
}

/** `acp codex` as `acp with codex`, if the catalogue has an ACP agent of that name. It is read only for unknown words. */
async function expandAcpAgent(program: Command, words: readonly string[]): Promise<readonly string[]> {
  if (!mayBeShortForm(program, words)) return words;
  const [{ readConfig }, { agentsById, agentsFromConfig }] = await Promise.all([
    import("../config/schema.js"),
    import("../agents/catalogue.js"),
  ]);
  // A config that cannot be read is reported by the command itself.
  const own = await readConfig().then(
    (config) => agentsFromConfig(config.agents),
    () => [],
  );
  const agents = agentsById(own);
  return expandShortForm(program, words, (word) => agents.get(word)?.acp !== undefined) ?? words;
}

/** Commands that look up a record: if the store cannot be read, they fail with STORE_UNREADABLE. */
const LOOKUP_COMMANDS: ReadonlySet<string> = new Set([
  ...["stop", "kill", "rm", "inspect", "wait", "logs", "screen", "events", "who", "attach"],
  ...["runs", "process", "tasks", "sessions", "acp", "approvals", "gateways"],
]);

/** Commands of those groups that start something: they keep their own exit codes. */
const START_COMMANDS: ReadonlySet<string> = new Set([
  "acp with",
  "acp spawn",
  "acp prompt",
  "sessions create",
]);

function isLookup(path: readonly string[]): boolean {
  return LOOKUP_COMMANDS.has(path[0] ?? "") && !START_COMMANDS.has(path.slice(0, 2).join(" "));
}

type AddCommand = (program: Command, setExitCode: SetExitCode) => void;

/** The commands in the order of `holdfast --help`, grouped by purpose. */
const GROUPS: readonly (readonly [heading: string, ...adders: AddCommand[]])[] = [
  ["Run commands and agents:", addRunCommand, addAgentCommand, addAcpCommand],
  [
    "Runs:",
    addPsCommand,
    addLogsCommand,
    addInspectCommand,
    addWaitCommand,
    addStopCommands,
    addRemoveCommand,
    addAttachCommand,
    addScreenCommand,
    addEventsCommand,
    addWhoCommand,
    addRunsCommand,
    addProcessCommand,
    addServiceCommand,
    addUnmanagedCommand,
  ],
  [
    "Sessions, tasks and notifications:",
    addSessionsCommand,
    addTasksCommand,
    addApprovalsCommand,
    addAgentsCommand,
    addMcpCommand,
    addNotifyCommand,
  ],
  [
    "Gateway and setup:",
    addDashboardCommand,
    addGatewayCommand,
    addGatewaysCommand,
    addConfigCommand,
    addStateCommand,
    addStoreCommand,
    addDoctorCommand,
    addShellenvCommand,
    addCompletionCommand,
  ],
];

/** Builds the command line; nothing is executed. */
export function buildProgram(setExitCode: SetExitCode): Command {
  const program = new Command("holdfast")
    .description("Own every process your agents start, until each is provably gone.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print help")
    // `holdfast run npm test --help`: options after the command belong to the command.
    .enablePositionalOptions()
    .configureHelp(helpConfiguration)
    .exitOverride()
    .configureOutput({
      writeOut: print,
      outputError: (text, write) => write(`${formatNotice(toSingleLine(text), "red")}\n`),
    })
    .addHelpText(
      "after",
      `
The state directory is $HOLDFAST_HOME, or the platform's default. Records are kept
in a SQLite file there, or in the PostgreSQL database of $HOLDFAST_DATABASE_URL or
database.url of the config file.

Exit status of commands that look up a record: 1 there is no such record, 5 the
store cannot be read.
`,
    );
  for (const [heading, ...adders] of GROUPS) {
    program.commandsGroup(heading);
    for (const add of adders) add(program, setExitCode);
  }
  program.hook("preAction", async (_, command) => {
    const path = commandPath(command);
    // These two commands report readable secrets themselves.
    if (path[0] !== "doctor" && path.join(" ") !== "gateway run") reportReadableSecrets();
    if (!COPY_SAFE_COMMANDS.has(path[0] ?? "")) await rejectForeignState();
  });
  removeHelpCommands(program);
  addHelpCommand(program, setExitCode);
  return program;
}

/** Commands that do not read the state directory, or report themselves that it is a copy. */
const COPY_SAFE_COMMANDS: ReadonlySet<string> = new Set([
  "help",
  "completion",
  "__complete",
  "config",
  "doctor",
  "state",
]);

/** The words of a command without `holdfast`: `["runs", "list"]`. */
function commandPath(command: Command): string[] {
  return command.parent === null ? [] : [...commandPath(command.parent), command.name()];
}

/** `holdfast help runs list`: commander's own help command knows only one level. */
function addHelpCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("help")
    .summary("print help for a command")
    .description("Print help for a command.")
    .argument("[command...]", "the words of the command: service adopt")
    .action((words: readonly string[]) => {
      const unknown = findUnknownCommand(program, words);
      if (unknown !== null) program.error(unknownCommandText(unknown));
      let command = program;
      for (const word of words) command = findCommand(command, word) ?? command;
      command.outputHelp();
      setExitCode(0);
    });
}

function removeHelpCommands(command: Command): void {
  command.helpCommand(false);
  for (const each of command.commands) removeHelpCommands(each);
}

/** Commander begins with `error: ` and puts its suggestion on a second line. */
function toSingleLine(text: string): string {
  return text
    .trim()
    .replace(/^error: /, "")
    .replace(/\n\(Did you mean/, " (did you mean")
    .replaceAll(/\s*\n\s*/g, " ");
}
