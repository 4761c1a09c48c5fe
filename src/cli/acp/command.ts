import type { Command } from "commander";
import { addNotifyOptions, notifyBody, type NotifyFlags } from "../client/notify-options.js";
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
