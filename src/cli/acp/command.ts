import type { Command } from "commander";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";
import { collectPairs, positiveIntegerUpTo } from "../options/parsers.js";
import { addPermissions } from "./permissions/command.js";
import { addPrompt, addSpawn, formatOption } from "./prompt-and-spawn-commands.js";
import { addWith } from "./with-command.js";

const about = `
A session keeps an agent and its context over several prompts. One turn runs at a
time; further prompts are queued. cancel ends a turn and keeps the agent; close ends
the agent with every process it started.

A session is given by its name, its id, or an unambiguous beginning of either. Names
of open sessions are unique.

"holdfast acp <agent>" is short for "holdfast acp with <agent>".

Examples:
  holdfast acp codex "why does the build fail?"
  holdfast acp spawn opencode --name site "what does this project do?"
  holdfast acp prompt site "write a test for it"
  git diff | holdfast acp prompt site -
  holdfast acp cancel site --reap-tools
  holdfast acp close site
`;

export function addAcpCommand(program: Command, setExitCode: SetExitCode): void {
  const acp = program
    .command("acp")
    .summary("sessions with agents that speak ACP: spawn, prompt, cancel, close")
    .description("Sessions with agents that speak the Agent Client Protocol.")
    .addHelpText("after", about);
  addWith(acp, setExitCode);
  addSpawn(acp, setExitCode);
  addPrompt(acp, setExitCode);
  addSet(acp, setExitCode);
  addCancelAndClose(acp, setExitCode);
  addAgentSessions(acp, setExitCode);
  addLogin(acp, setExitCode);
  addReadCommands(acp, setExitCode);
  addPermissions(acp, setExitCode);
}

function addCancelAndClose(acp: Command, setExitCode: SetExitCode): void {
  acp
    .command("cancel")
    .summary("cancel a turn; the agent stays")
    .description(
      "Cancel the running turn, or else the next queued one, and wait for its end. The agent stays.",
    )
    .argument("<session>", "its name or id")
    .option("--turn <id>", "this turn, running or queued")
    .option("--reap-tools", "end processes that the turn leaves running")
    .option("--json", "print the turn as JSON")
    .addHelpText(
      "after",
      "\nExit status: 0 cancelled, 1 there is nothing to cancel, 3 processes are left,\n122 the agent did not confirm the cancellation.\n",
    )
    .action(lazyAction(setExitCode, () => import("./cancel-and-close.js"), "cancelTurn"));
  acp
    .command("close")
    .summary("close a session and end its agent")
    .description(
      "Close a session and end its agent. Waits until every process is proven to be gone. The sessions below it and its background runs continue and are listed; --tree ends them too.",
    )
    .argument("<session>", "its name or id")
    .option("--reason <text>", "record this reason for the close")
    .option("--tree", "also close the sessions below it, and stop their runs, but not services")
    .option("--discard", "also delete what the agent stored, if the agent supports that")
    .option("--json", "print the session as JSON")
    .action(lazyAction(setExitCode, () => import("./cancel-and-close.js"), "closeAcpSession"));
}

const setHelp = `
The agent decides what it offers: \`holdfast acp show <session>\` lists its models, modes
and options. A value is an id or a name from that list. A session may only change the
sessions that it started.

Examples:
  holdfast acp set site --model opus
  holdfast acp set site --mode plan --option thought_level=high

Exit status: 0 set, 1 no such session, or the agent refused, 2 the agent does not
offer it.
`;

function addSet(acp: Command, setExitCode: SetExitCode): void {
  acp
    .command("set")
    .summary("change the model, mode or options of a session's agent")
    .description(
      "Change the model, the mode or config options of a session's agent, also during a turn. They are set again when the agent is restarted.",
    )
    .argument("<session>", "its name or id")
    .option("--model <model>", "the agent's model, by id or name")
    .option("--mode <mode>", "the agent's mode, by id or name")
    .option("--option <option=value>", "a config option of the agent (repeatable)", collectPairs)
    .option("--json", "print the session and what its agent offers as JSON")
    .addHelpText("after", setHelp)
    .action(lazyAction(setExitCode, () => import("./set-and-show-settings.js"), "setAgentSettings"));
}

const loginHelp = `
If an agent offers several login methods, --method chooses one; without it, the command
lists them. The agent carries out a login in a browser; a login in a terminal runs in
this terminal.

Examples:
  holdfast acp login gemini
  holdfast acp login gemini --method oauth-personal
`;

function addLogin(acp: Command, setExitCode: SetExitCode): void {
  acp
    .command("login")
    .summary("log in to an agent")
    .description("Log in to an agent, with one of the methods that it offers.")
    .argument("[agent]", "an agent of the catalogue that speaks ACP (holdfast agents)")
    .option("--method <id>", "the id of one of the agent's login methods")
    .option("--agent-command <command>", "any command instead of an agent of the catalogue, in shell syntax")
    .addHelpText("after", loginHelp)
    .action(lazyAction(setExitCode, () => import("./login.js"), "loginToAgent"));
}

const agentSessionsHelp = `
The command starts the agent for this, and ends it. Not every agent can list its sessions.

Examples:
  holdfast acp agent-sessions claude --cwd .
  holdfast acp spawn claude --resume 0b5f2c1e --name before "where were we?"
`;

function addAgentSessions(acp: Command, setExitCode: SetExitCode): void {
  acp
    .command("agent-sessions")
    .summary("list the sessions that an agent has stored itself")
    .description(
      "List the sessions that an agent has stored itself, also those made without Holdfast. `acp spawn --resume` continues one.",
    )
    .argument("[agent]", "an agent of the catalogue that speaks ACP (holdfast agents)")
    .option("--agent-command <command>", "any command instead of an agent of the catalogue, in shell syntax")
    .option("--cwd <directory>", "only sessions of this directory")
    .option("--limit <n>", "list at most n sessions", positiveIntegerUpTo(1_000), 100)
    .option("--json", "print a JSON array")
    .addHelpText("after", agentSessionsHelp)
    .action(lazyAction(setExitCode, () => import("./agent-sessions.js"), "printAgentSessions"));
}

function addReadCommands(acp: Command, setExitCode: SetExitCode): void {
  acp
    .command("list", { isDefault: true })
    .summary("list open sessions, newest first")
    .description("List the ACP sessions that the requester may see, newest first. Read-only.")
    .option("-a, --all", "also list closed sessions")
    .option("--limit <n>", "list at most n sessions", positiveIntegerUpTo(1_000), 100)
    .option("--json", "print a JSON array of records")
    .action(lazyAction(setExitCode, () => import("./list-show-watch.js"), "printAcpSessions"));
  acp
    .command("show")
    .summary("show a session: turn, queue, permission requests, processes")
    .description("Show a session: its turn and queue, its permission requests, its processes. Read-only.")
    .argument("<session>", "its name or id")
    .option("--json", "print JSON")
    .action(lazyAction(setExitCode, () => import("./list-show-watch.js"), "showAcpSession"));
  acp
    .command("history")
    .summary("print the prompts and answers of a session")
    .description("Print the prompts and answers of a session, oldest first. Read-only.")
    .argument("<session>", "its name or id")
    .option("--limit <n>", "print the newest n turns", positiveIntegerUpTo(1_000), 100)
    .option("--turn <id>", "print only this turn, with its whole answer")
    .option("--json", "print a JSON array of turns")
    .action(lazyAction(setExitCode, () => import("./list-show-watch.js"), "showAcpHistory"));
  acp
    .command("watch")
    .summary("follow what happens in a session")
    .description(
      "Print what has happened in a session, and follow it until the session is closed. Read-only, unless you answer a permission request.",
    )
    .argument("<session>", "its name or id")
    .option("--new", "only what happens from now on")
    .option("--thoughts", "print the agent's thoughts in full")
    .addOption(formatOption())
    .option("--json", "the same as --format json")
    .action(lazyAction(setExitCode, () => import("./list-show-watch.js"), "watchSession"));
}
