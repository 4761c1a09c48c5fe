import { Argument, type Command, InvalidArgumentError } from "commander";
import type { NotifyPolicy } from "../../model/task.js";
import { NOTIFY_POLICIES, TASK_RUNTIMES, TASK_STATUSES } from "../../model/enums.js";
import { positiveIntegerUpTo, rejectUnknownSubcommand, type SetExitCode } from "../options/parsers.js";
import type { TaskListFilter } from "./list.js";

const about = `
A task is the durable record of work that goes on in the background: commands,
agents' turns, and what other programs do. A task is named by its id, by that of
the run, turn or session that does it, or by a beginning that only one has: four
characters of it at least, beside task_ or run_.

Statuses: queued, running, succeeded (or blocked: it needs somebody before it
can go on), failed, timed_out, cancelled, lost.

Examples:
  holdfast tasks
  holdfast tasks list --status failed,lost --json
  holdfast tasks show task_4k2m
  holdfast tasks wait task_4k2m && holdfast run -- ./deploy
`;

const waitHelp = `
What is heard of it is shown on a terminal meanwhile. Its result goes to stdout,
how it ended to stderr. A gateway that is restarted is waited for. Ctrl-C stops
waiting, and nothing else. A task that goes on needs a gateway: one is started
when none runs, but not from inside a run, nor for a session (HOLDFAST_TOKEN).

Exit status: 0 succeeded; 1 failed, or there is no such task; 3 blocked, it
needs somebody; 124 timed out; 125 lost, or holdfast failed; 130 cancelled.
`;

const policyHelp = `
  done_only      of its end
  state_changes  of its start, its progress, a stall, and its end
  silent         of nothing

Of a task that has ended nothing is to be decided any more.
`;

const auditCodes = `
Findings: stale_queued, stale_running, lost, delivery_failed, missing_cleanup,
inconsistent_timestamps; docs/concepts/tasks.md says what each means.

Exit status: 0; 1 something was found.
`;

const TASK_ARGUMENT = "its id, that of its run, turn or session, or the beginning of it";

interface JsonFlag {
  readonly json?: true;
}

type ListFlags = TaskListFilter & JsonFlag;

export function addTasksCommand(program: Command, setExitCode: SetExitCode): void {
  const tasks = program
    .command("tasks")
    .summary("work in the background: list, show, wait, cancel, notify, …")
    .description("Work that goes on in the background: how it is going, what came of it, who was told.")
    .addHelpText("after", about);
  rejectUnknownSubcommand(tasks);
  tasks.commandsGroup("Look:");
  addList(tasks, setExitCode);
  addShow(tasks, setExitCode);
  addWait(tasks, setExitCode);
  tasks.commandsGroup("Decide:");
  addNotify(tasks, setExitCode);
  addCancel(tasks, setExitCode);
  tasks.commandsGroup("Look after:");
  addRetryAndDismiss(tasks, setExitCode);
  addAudit(tasks, setExitCode);
  addMaintenance(tasks, setExitCode);
}

function addList(tasks: Command, setExitCode: SetExitCode): void {
  tasks
    .command("list", { isDefault: true })
    .summary("tasks that may be seen, newest first")
    .description("Tasks that may be seen, newest first. Only reads.")
    .option("--status <statuses>", "only in these, separated by commas", parseCommaList(TASK_STATUSES))
    .option("--runtime <runtimes>", "only of these, separated by commas", parseCommaList(TASK_RUNTIMES))
    .option("--session <session>", "only those that a session asked for, or does: its id or key")
    .option("--limit <n>", "at most this many", positiveIntegerUpTo(100_000), 100)
    .option("--json", "the records as a JSON array")
    .action(async ({ json, ...filter }: ListFlags) => {
      const { printTasks } = await import("./list.js");
      setExitCode(await printTasks(filter, json === true));
    });
}

function addShow(tasks: Command, setExitCode: SetExitCode): void {
  tasks
    .command("show")
    .summary("one task: what does it, its result, who was told, its history")
    .description(
      "One task: its run with processes and output, how it ended and by whom, its messages with every attempt, its history. Only reads.",
    )
    .argument("<task>", TASK_ARGUMENT)
    .option("--json", "as JSON")
    .action(async (wanted: string, { json }: JsonFlag) => {
      const { showTask } = await import("./show.js");
      setExitCode(await showTask(wanted, json === true));
    });
}

function addWait(tasks: Command, setExitCode: SetExitCode): void {
  tasks
    .command("wait")
    .summary("until it has ended; prints its result")
    .description("Wait until a task has ended, and print its result.")
    .argument("<task>", TASK_ARGUMENT)
    .option("--json", "instead, its record when it has ended")
    .addHelpText("after", waitHelp)
    .action(async (wanted: string, { json }: JsonFlag) => {
      const { waitForTask } = await import("./wait.js");
      setExitCode(await waitForTask(wanted, json === true));
    });
}

function addNotify(tasks: Command, setExitCode: SetExitCode): void {
  tasks
    .command("notify")
    .summary("decide when its requester hears of it")
    .description("Decide when the requester of a task that goes on hears of it.")
    .argument("<task>", TASK_ARGUMENT)
    .addArgument(new Argument("<policy>", "of what").choices(NOTIFY_POLICIES))
    .option("--json", "the task as JSON")
    .addHelpText("after", policyHelp)
    .action(async (wanted: string, policy: NotifyPolicy, { json }: JsonFlag) => {
      const { setNotifyPolicy } = await import("./notifications.js");
      setExitCode(await setNotifyPolicy(wanted, policy, json === true));
    });
}

function addCancel(tasks: Command, setExitCode: SetExitCode): void {
  tasks
    .command("cancel")
    .summary("cancel what does it")
    .description(
      "Cancel a task: end its run until that is proven, or its agent's turn. A program of another kind is told at its next heartbeat.",
    )
    .argument("<task>", TASK_ARGUMENT)
    .option("--json", "what became of it, as JSON")
    .addHelpText(
      "after",
      "\nExit status: 0 it is cancelled, or had ended before; 3 it has not stopped yet.\n",
    )
    .action(async (wanted: string, { json }: JsonFlag) => {
      const { cancelTaskCommand } = await import("./cancel.js");
      setExitCode(await cancelTaskCommand(wanted, json === true));
    });
}

function addRetryAndDismiss(tasks: Command, setExitCode: SetExitCode): void {
  const verbs = [
    ["retry", "retryTask", "send again what could not be delivered", "Try again, from the beginning,"],
    ["dismiss", "dismissTask", "give up what could not be delivered", "Give up"],
  ] as const;
  for (const [name, verb, summary, does] of verbs)
    tasks
      .command(name)
      .summary(summary)
      .description(`${does} the messages of a task that could not be delivered. For the operator alone.`)
      .argument("<task>", TASK_ARGUMENT)
      .option("--json", "the task, and how many messages, as JSON")
      .addHelpText("after", "\nExit status: 0; 1 there is no such message, or no such task.\n")
      .action(async (wanted: string, { json }: JsonFlag) => {
        const { retryOrDismiss } = await import("./notifications.js");
        setExitCode(await retryOrDismiss(verb, wanted, json === true));
      });
}

function addAudit(tasks: Command, setExitCode: SetExitCode): void {
  tasks
    .command("audit")
    .summary("tasks that an operator should look at")
    .description("Tasks that an operator should look at, and why. Only reads.")
    .option("--json", "the findings as a JSON array")
    .addHelpText("after", auditCodes)
    .action(async ({ json }: JsonFlag) => {
      const { printTaskAudit } = await import("./maintenance.js");
      setExitCode(await printTaskAudit(json === true));
    });
}

function addMaintenance(tasks: Command, setExitCode: SetExitCode): void {
  tasks
    .command("maintenance")
    .summary("bring tasks in line with what became of their work")
    .description(
      "What a gateway does every minute: bring tasks in line with what became of their work, and forget old ones. Only says what would be done.",
    )
    .option("--apply", "do it")
    .option("--json", "the measures as JSON")
    .action(async ({ apply, json }: JsonFlag & { readonly apply?: true }) => {
      const { maintainTasksCommand } = await import("./maintenance.js");
      setExitCode(await maintainTasksCommand(apply === true, json === true));
    });
}

/** As the gateway takes them. */
function parseCommaList(words: readonly string[]): (text: string) => string {
  return (text) => {
    if (text.split(",").every((word) => words.includes(word))) return text;
    throw new InvalidArgumentError(`Write some of ${words.join(",")}.`);
  };
}
