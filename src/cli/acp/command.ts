import { type Command, Option } from "commander";
import { addNotifyOptions, notifyBody, type NotifyFlags } from "../client/notify-options.js";
import { addDetachOption, type DetachFlags, isDetached } from "../options/detach.js";
import { positiveIntegerUpTo, type SetExitCode } from "../options/parsers.js";
import {
  addDisplayOptions,
  answerHelp,
  type DisplayFlags,
  displayOptions,
  formatOption,
  rejectNotifyOptions,
} from "./display-options.js";
import { addPermissions } from "./permissions-command.js";
import { addSpawn } from "./spawn-command.js";

const about = `
A session keeps an agent and its context over several prompts. One turn runs at a
time; further prompts are queued. cancel ends a turn and keeps the agent; close ends
the agent with every process it started.

A session is given by its name, its id, or an unambiguous beginning of either. Names
of open sessions are unique.

Examples:
  holdfast acp spawn opencode --name site "what does this project do?"
  holdfast acp prompt site "write a test for it"
  git diff | holdfast acp prompt site -
  holdfast acp cancel site --reap-tools
  holdfast acp close site
`;

/** `--no-wait` is the former spelling of `--detach`. */
type PromptFlags = DisplayFlags & NotifyFlags & DetachFlags & { readonly wait: boolean };

export function addAcpCommand(program: Command, setExitCode: SetExitCode): void {
  const acp = program
    .command("acp")
    .summary("sessions with agents that speak ACP: spawn, prompt, cancel, close")
    .description("Sessions with agents that speak the Agent Client Protocol.")
    .addHelpText("after", about);
  addSpawn(acp, setExitCode);
  addPrompt(acp, setExitCode);
  addCancelAndClose(acp, setExitCode);
  addReadCommands(acp, setExitCode);
  addPermissions(acp, setExitCode);
}

function addPrompt(acp: Command, setExitCode: SetExitCode): void {
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
    .summary("close a session and end its agent")
    .description("Close a session and end its agent. Waits until every process is proven to be gone.")
    .argument("<session>", "its name or id")
    .option("--discard", "also delete what the agent stored, if the agent supports that")
    .option("--json", "print the session as JSON")
    .action(async (session: string, { discard, json }: { readonly discard?: true; readonly json?: true }) => {
      const { closeAcpSession } = await import("./close.js");
      setExitCode(await closeAcpSession(session, discard === true, json === true));
    });
}

function addReadCommands(acp: Command, setExitCode: SetExitCode): void {
  acp
    .command("list", { isDefault: true })
    .summary("list open sessions, newest first")
    .description("List the ACP sessions that the requester may see, newest first. Read-only.")
    .option("-a, --all", "also list closed sessions")
    .option("--limit <n>", "list at most n sessions", positiveIntegerUpTo(1_000), 100)
    .option("--json", "print a JSON array of records")
    .action(
      async ({ all, limit, json }: { readonly all?: true; readonly limit: number; readonly json?: true }) => {
        const { printAcpSessions } = await import("./sessions.js");
        setExitCode(await printAcpSessions(all === true, limit, json === true));
      },
    );
  acp
    .command("show")
    .summary("show a session: turn, queue, permission requests, processes")
    .description("Show a session: its turn and queue, its permission requests, its processes. Read-only.")
    .argument("<session>", "its name or id")
    .option("--json", "print JSON")
    .action(async (session: string, { json }: { readonly json?: true }) => {
      const { showAcpSession } = await import("./sessions.js");
      setExitCode(await showAcpSession(session, json === true));
    });
  acp
    .command("history")
    .summary("print the prompts and answers of a session")
    .description("Print the prompts and answers of a session, oldest first. Read-only.")
    .argument("<session>", "its name or id")
    .option("--limit <n>", "print the newest n turns", positiveIntegerUpTo(1_000), 100)
    .option("--json", "print a JSON array of turns")
    .action(async (session: string, { limit, json }: { readonly limit: number; readonly json?: true }) => {
      const { showAcpHistory } = await import("./sessions.js");
      setExitCode(await showAcpHistory(session, limit, json === true));
    });
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
    .action(async (session: string, flags: DisplayFlags & { readonly new?: true }) => {
      const { watchSession } = await import("./watch.js");
      const format = flags.json === true ? "json" : (flags.format ?? "text");
      const after = flags.new === true ? null : 0;
      setExitCode(await watchSession({ session, format, thoughts: flags.thoughts === true, after }));
    });
}
