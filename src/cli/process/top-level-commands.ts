import { type Command, Option } from "commander";
import {
  collectPairs,
  parsePositiveInteger,
  positiveIntegerUpTo,
  type SetExitCode,
} from "../options/parsers.js";
import { parseOffset } from "../options/parsers.js";

export function addScreenCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("screen")
    .summary("what a run's terminal shows now")
    .description("What a run's terminal shows now, as text.")
    .argument("<run>", "its id, or the beginning of it")
    .option("--json", "with cursor, title and modes, as JSON")
    .action(async (wanted: string, { json }: { readonly json?: true }) => {
      const { showScreen } = await import("./poll.js");
      setExitCode(await showScreen(wanted, json === true));
    });
}

interface PsFlags {
  readonly label?: Record<string, string>;
  readonly host?: string;
  readonly all?: true;
  readonly watch?: true;
  readonly json?: true;
}

export function addPsCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("ps")
    .summary("what is running, with processes, CPU and memory")
    .description(
      "Open runs with their live process trees, CPU time and memory; of other hosts that share the store, what is on record. Only reads; needs no gateway.",
    )
    .option("--label <key=value>", "only those with this label (repeatable)", collectPairs)
    .option("--host <host>", "only on this host: its name, or the beginning of its id")
    .option("--all", "those that were removed and are not gone yet, too")
    .option("-w, --watch", "again every two seconds")
    .option("--json", "records and processes as JSON; with --watch one line each time")
    .action(async (flags: PsFlags) => {
      const { showPs } = await import("../runs/ps.js");
      setExitCode(
        await showPs({
          labels: flags.label ?? {},
          host: flags.host ?? null,
          hidden: flags.all === true,
          watch: flags.watch === true,
          json: flags.json === true,
        }),
      );
    });
}

export function addAttachCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("attach")
    .summary("be a run's terminal, live")
    .description("Show a run live and type into it. Several can; C-] detaches, and the run goes on.")
    .argument("<run>", "its id, or the beginning of it")
    .option("--read-only", "only watch")
    .action(async (wanted: string, { readOnly }: { readonly readOnly?: true }) => {
      const { attachToRun } = await import("./attach.js");
      setExitCode(await attachToRun(wanted, readOnly === true));
    });
}

export function addLogsCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("logs")
    .summary("a run's output")
    .description("The last lines of a run's output; with -f, also what comes, until it ends.")
    .argument("<run>", "its id, or the beginning of it")
    .option("-f, --follow", "go on until the run has ended")
    .option("-n, --lines <n>", "so many lines of each stream", positiveIntegerUpTo(100_000), 200)
    .addOption(new Option("--stream <name>", "only this one").choices(["stdout", "stderr"]))
    .option("--raw", "as it came, escape sequences and all")
    .option("--json", "pieces with offsets, one JSON object per line")
    .action(
      async (
        wanted: string,
        flags: { follow?: true; lines: number; stream?: "stdout" | "stderr"; raw?: true; json?: true },
      ) => {
        const { showLogs } = await import("./logs.js");
        setExitCode(
          await showLogs({
            wanted,
            streams: flags.stream === undefined ? ["stdout", "stderr"] : [flags.stream],
            page: { lines: flags.lines },
            follow: flags.follow === true,
            raw: flags.raw === true,
            json: flags.json === true,
          }),
        );
      },
    );
}

interface EventsFlags {
  readonly follow?: true;
  readonly run?: string;
  readonly host?: string;
  readonly after: number;
  readonly limit: number;
  readonly json?: true;
}

export function addEventsCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("events")
    .summary("what happened, in order")
    .description("What happened to all runs, or to one, in order. Only reads.")
    .option("-f, --follow", "go on with what happens")
    .option("--run <id>", "only of this run: its id, or the beginning of it")
    .option("--host <host>", "only on this host: its name, or the beginning of its id")
    .option("--after <seq>", "only those after this number", parseOffset, 0)
    .option("--limit <n>", "at most the newest so many", parsePositiveInteger, 100)
    .option("--json", "one JSON object per line")
    .action(async (flags: EventsFlags) => {
      const { showEvents } = await import("./events.js");
      setExitCode(
        await showEvents({
          run: flags.run ?? null,
          host: flags.host ?? null,
          after: flags.after,
          limit: flags.limit,
          follow: flags.follow === true,
          json: flags.json === true,
        }),
      );
    });
}
