import { Argument, type Command, InvalidArgumentError } from "commander";
import { NOTIFY_POLICIES, TASK_RUNTIMES, TASK_STATUSES } from "../../model/enums.js";
import { addChatOptions } from "../client/notify-options.js";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";
import { positiveIntegerUpTo } from "../options/parsers.js";

const about = `
A task is the durable record of background work: commands, agents' turns, and work of
other programs. A task is given by its id, by the name or id of its run or session, by
the id of its turn, or by an unambiguous beginning of at least four characters after
task_ or run_. The name of a session or run means its open task, or else its newest,
also after the session has ended. A session names its own children without its own key.

Statuses: queued, running, succeeded (or blocked: it needs a person to continue),
failed, timed_out, cancelled, lost.

Examples:
  holdfast tasks
  holdfast tasks list --status failed,lost --json
  holdfast tasks show task_4k2m
  holdfast tasks show build
  holdfast tasks wait task_4k2m && holdfast run -- ./deploy
`;

const waitHelp = `
On a terminal, progress is shown. The result goes to stdout, the status to stderr. The
command waits for a gateway that is restarted. Ctrl-C ends only the wait. Waiting
needs a gateway: one is started if none is running, except inside a run and for a
session (HOLDFAST_TOKEN).

Exit status: 0 succeeded, 1 failed, or no such task, 3 blocked, 124 timed out,
125 lost, or Holdfast failed, 130 cancelled.
`;

const policyHelp = `
  done_only      at its end
  state_changes  at its start, at progress, at a stall, and at its end
  silent         never

The policy of an ended task cannot be changed.
`;

const auditCodes = `
Findings: stale_queued, stale_running, lost, delivery_failed, missing_cleanup,
inconsistent_timestamps; see docs/concepts/tasks.md.

Exit status: 0 no findings, 1 findings.
`;

const TASK_ARGUMENT = "its id; or the name or id of its run, turn or session; or the beginning of an id";

export function addTasksCommand(program: Command, setExitCode: SetExitCode): void {
  const tasks = program
    .command("tasks")
    .summary("background work: list, show, wait, cancel, notify")
    .description("Background work: its status, its result, and its notifications.")
    .addHelpText("after", about);
  tasks.commandsGroup("Read:");
  tasks
    .command("list", { isDefault: true })
    .summary("list tasks, newest first")
    .description("List the tasks that the requester may see, newest first. Read-only.")
    .option("--status <statuses>", "only these statuses, separated by commas", parseCommaList(TASK_STATUSES))
    .option("--runtime <runtimes>", "only these runtimes, separated by commas", parseCommaList(TASK_RUNTIMES))
    .option("--session <session>", "only tasks that this session requested or does: its key or id")
    .option("--limit <n>", "list at most n tasks", positiveIntegerUpTo(100_000), 100)
    .option("--json", "print a JSON array of records")
    .action(lazyAction(setExitCode, () => import("./list-and-show.js"), "printTasks"));
  tasks
    .command("show")
    .summary("show a task: run, result, notifications, history")
    .description(
      "Show a task: its run with processes and output, how it ended, its notifications with every attempt, its history. Read-only.",
    )
    .argument("<task>", TASK_ARGUMENT)
    .option("--json", "print JSON")
    .action(lazyAction(setExitCode, () => import("./list-and-show.js"), "showTask"));
  tasks
    .command("wait")
    .summary("wait until a task has ended, and print its result")
    .description("Wait until a task has ended, and print its result.")
    .argument("<task>", TASK_ARGUMENT)
    .option("--json", "print the record when the task has ended")
    .addHelpText("after", waitHelp)
    .action(lazyAction(setExitCode, () => import("./wait.js"), "waitForTask"));
  tasks.commandsGroup("Control:");
  const notify = tasks
    .command("notify")
    .summary("set when and where a task notifies")
    .description(
      "Set when the requester of a running task is notified, and add a channel that is notified too.",
    )
    .argument("<task>", TASK_ARGUMENT)
    .addArgument(new Argument("<policy>", "when").choices(NOTIFY_POLICIES));
  addChatOptions(notify)
    .option("--json", "print the task as JSON")
    .addHelpText("after", policyHelp)
    .action(lazyAction(setExitCode, () => import("./change-task.js"), "setNotifyPolicy"));
  tasks
    .command("cancel")
    .summary("cancel a task")
    .description(
      "Cancel a task: stop its run, or cancel its agent's turn. A program that reports its own task is notified at its next heartbeat.",
    )
    .argument("<task>", TASK_ARGUMENT)
    .option("--json", "print the result as JSON")
    .addHelpText("after", "\nExit status: 0 cancelled, or it had already ended, 3 not stopped yet.\n")
    .action(lazyAction(setExitCode, () => import("./change-task.js"), "cancelTaskCommand"));
  tasks.commandsGroup("Maintain:");
  const verbs = [
    ["retry", "retryTask", "send undelivered notifications again", "Send"],
    ["dismiss", "dismissTask", "discard undelivered notifications", "Discard"],
  ] as const;
  for (const [name, verb, summary, does] of verbs)
    tasks
      .command(name)
      .summary(summary)
      .description(
        `${does} the notifications of a task that wait or could not be delivered${name === "retry" ? ", now" : ""}. Only for the operator.`,
      )
      .argument("<task>", TASK_ARGUMENT)
      .option("--json", "print the task and the number of notifications as JSON")
      .addHelpText("after", "\nExit status: 0 done, 1 there is no such notification, or no such task.\n")
      .action(lazyAction(setExitCode, () => import("./change-task.js"), verb));
  tasks
    .command("audit")
    .summary("list tasks that need the operator's attention")
    .description("List tasks that need the operator's attention, and why. Read-only.")
    .option("--json", "print a JSON array of findings")
    .addHelpText("after", auditCodes)
    .action(lazyAction(setExitCode, () => import("./maintain-and-audit.js"), "printTaskAudit"));
  tasks
    .command("maintenance")
    .summary("reconcile tasks with the work behind them")
    .description(
      "Reconcile tasks with the runs and turns behind them, and delete old tasks, as a gateway does every minute. Without --apply, only print what would be done.",
    )
    .option("--apply", "apply the actions")
    .option("--json", "print the actions as JSON")
    .action(lazyAction(setExitCode, () => import("./maintain-and-audit.js"), "maintainTasksCommand"));
}

/** A list for a query parameter. */
function parseCommaList(words: readonly string[]): (text: string) => string {
  return (text) => {
    if (text.split(",").every((word) => words.includes(word))) return text;
    throw new InvalidArgumentError(`Write some of ${words.join(",")}.`);
  };
}
