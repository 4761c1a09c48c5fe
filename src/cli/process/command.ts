import { type Command, Option } from "commander";
import { RUN_ARGUMENT, type SetExitCode } from "../options/command-definition.js";
import { asOptionParser, parseOffset, positiveIntegerUpTo } from "../options/parsers.js";
import { parseDuration } from "../options/durations-and-sizes.js";
import type { ProcessListRequest } from "./list.js";
import type { LogsRequest } from "./logs.js";
import type { PollRequest } from "./poll-screen-and-wait.js";
import { stopHelp } from "./top-level-commands.js";

const keysExamples = `
Keys: C-c, M-x, C-M-x, S-Tab, Enter, Tab, BSpace, Escape, Space, Up, Down, Left,
Right, Home, End, PageUp, PageDown, Insert, Delete, F1 to F12, with the prefixes C-,
M- and S-; hex:1b5b41 for bytes, literal:text for text. Keys are encoded for the
current modes of the run's terminal.

Examples:
  holdfast process send-keys 4k2m C-c
  holdfast process send-keys 4k2m literal:yes Enter
  holdfast process send-keys 4k2m --literal "ls -l"
`;

interface LogFlags extends Pick<LogsRequest, "follow" | "raw" | "json"> {
  readonly stream: "stdout" | "stderr";
  readonly lines: number;
  readonly skip?: number;
  readonly offset?: number;
  readonly bytes: number;
}

export function addProcessCommand(program: Command, setExitCode: SetExitCode): void {
  const process = program
    .command("process")
    .summary("read and control runs as agents do: poll, write, send keys, resize")
    .description(
      "Read and control runs. Commands that read need no gateway; commands that act start one if none is running.",
    );

  process.commandsGroup("Read:");
  addReadCommands(process, setExitCode);
  process.commandsGroup("Send input:");
  addInputCommands(process, setExitCode);

  process.commandsGroup("Stop and remove:");
  process
    .command("stop")
    .alias("kill")
    .summary("stop a run; the same as holdfast stop")
    .description("Stop a run with every process it started, and wait until all of them are gone.")
    .argument("<run>", RUN_ARGUMENT)
    .option("--grace <duration>", "time between TERM and KILL", asOptionParser(parseDuration))
    .option("--json", "print the result as JSON")
    .addHelpText("after", stopHelp)
    .action(async (wanted: string, flags: { grace?: number; json?: true }) => {
      const { stopRuns } = await import("../stop/stop-run.js");
      setExitCode(await stopRuns([wanted], flags.grace ?? null, flags.json === true));
    });

  process
    .command("remove")
    .alias("rm")
    .summary("remove a run from lists; stop it if it is open")
    .description(
      "Remove a run from lists at once, and stop it if it is open; waits until it is gone. Without a gateway the run is stopped and not removed.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .option("--json", "print the result as JSON")
    .action(async (wanted: string, { json }: { readonly json?: true }) => {
      const { removeRuns } = await import("../stop/remove-runs.js");
      setExitCode(await removeRuns([wanted], { force: true, json: json === true }));
    });

  process
    .command("clear")
    .summary("remove every ended run from lists")
    .description(
      "Remove every ended run from lists: those of the session, or all for the operator. Their records stay.",
    )
    .option("--json", "print the number of runs as JSON")
    .action(async ({ json }: { readonly json?: true }) => {
      const { clearRuns } = await import("../stop/remove-runs.js");
      setExitCode(await clearRuns(json === true));
    });
}

function addReadCommands(process: Command, setExitCode: SetExitCode): void {
  process
    .command("list", { isDefault: true })
    .summary("list open and ended runs, newest first")
    .description(
      "List the runs that the requester may see, open and ended, newest first, without removed ones. Read-only.",
    )
    .option("-a, --all", "also list removed runs")
    .option("--limit <n>", "list at most n runs", positiveIntegerUpTo(1_000), 100)
    .option("--json", "print a JSON array of records")
    .action(async (flags: ProcessListRequest) => {
      const { printVisibleRuns } = await import("./list.js");
      setExitCode(await printVisibleRuns(flags));
    });

  process
    .command("log")
    .summary("print a page of output, by lines or bytes")
    .description(
      "Print a page of one stream: its last lines, or from a line or a byte on. Consumes nothing. Read-only.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .addOption(new Option("--stream <name>", "the stream").choices(["stdout", "stderr"]).default("stdout"))
    .option("-n, --lines <n>", "print n lines", positiveIntegerUpTo(100_000), 200)
    .option("--skip <n>", "begin at the oldest line kept, and skip n lines", parseOffset)
    .addOption(new Option("--offset <byte>", "begin at this byte").argParser(parseOffset).conflicts("skip"))
    .option("--bytes <n>", "with --offset: print n bytes", positiveIntegerUpTo(1_048_576), 65_536)
    .option("-f, --follow", "continue until the run has ended")
    .option("--raw", "print escape sequences unchanged")
    .option("--json", "print text with offsets, one JSON object per piece")
    .action(async (wanted: string, flags: LogFlags) => {
      const { showLogs } = await import("./logs.js");
      const { stream, lines, skip, offset, bytes } = flags;
      const page =
        offset === undefined
          ? { lines, ...(skip === undefined ? {} : { skip }) }
          : { offset, maxBytes: bytes };
      setExitCode(await showLogs({ ...flags, wanted, streams: [stream], page }));
    });

  process
    .command("poll")
    .summary("wait for new output or the end")
    .description(
      "Print output since an offset, whether the run seems to wait for input, and how it ended. Consumes nothing. Read-only.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .addOption(
      new Option("--wait <duration>", "wait this long for something new, at most 30s")
        .argParser(asOptionParser(parseDuration))
        .default(0, "do not wait"),
    )
    .option("--stdout <offset>", "print stdout from this byte on", parseOffset, 0)
    .option("--stderr <offset>", "print stderr from this byte on", parseOffset, 0)
    .option("--raw", "print escape sequences unchanged; with --json, add the bytes as base64")
    .option("--json", "print JSON")
    .action(async (wanted: string, flags: PollRequest) => {
      const { pollRunCommand } = await import("./poll-screen-and-wait.js");
      setExitCode(await pollRunCommand(wanted, flags));
    });
}

function addInputCommands(process: Command, setExitCode: SetExitCode): void {
  const jsonOption = ["--json", "print what was done as JSON"] as const;
  process
    .command("write")
    .summary("write bytes to stdin")
    .description("Write text, or what comes on stdin, to the stdin of a run.")
    .argument("<run>", RUN_ARGUMENT)
    .argument("[text]", "the text; without it, stdin is read")
    .option("--close", "close the run's stdin afterwards")
    .option(...jsonOption)
    .action(async (wanted: string, text: string | undefined, flags: { close?: true; json?: true }) => {
      const { writeStdin } = await import("./input-and-resize.js");
      const close = flags.close === true;
      const input = close && text === undefined ? "" : (text ?? null);
      setExitCode(await writeStdin(wanted, input, close, flags.json === true));
    });

  process
    .command("send-keys")
    .summary("press keys in the terminal of a run")
    .description("Press keys in the terminal of a run.")
    .argument("<run>", RUN_ARGUMENT)
    .argument("<key...>", "names of keys")
    .option("--literal", "the words are text, not names of keys")
    .option(...jsonOption)
    .addHelpText("after", keysExamples)
    .action(async (wanted: string, keys: string[], flags: { literal?: true; json?: true }) => {
      const { sendKeysCommand } = await import("./input-and-resize.js");
      setExitCode(await sendKeysCommand(wanted, keys, flags.literal === true, flags.json === true));
    });

  process
    .command("paste")
    .summary("paste text, bracketed if the program enabled that")
    .description("Paste text, or what comes on stdin, into the terminal of a run.")
    .argument("<run>", RUN_ARGUMENT)
    .argument("[text]", "the text; without it, stdin is read")
    .option("--submit", "press Enter afterwards")
    .option(...jsonOption)
    .action(async (wanted: string, text: string | undefined, flags: { submit?: true; json?: true }) => {
      const { pasteText } = await import("./input-and-resize.js");
      setExitCode(await pasteText(wanted, text ?? null, flags.submit === true, flags.json === true));
    });

  process
    .command("submit")
    .summary("paste a line and press Enter")
    .description("Paste text into the terminal of a run and press Enter.")
    .argument("<run>", RUN_ARGUMENT)
    .argument("<text>", "the line")
    .option(...jsonOption)
    .action(async (wanted: string, text: string, { json }: { readonly json?: true }) => {
      const { pasteText } = await import("./input-and-resize.js");
      setExitCode(await pasteText(wanted, text, true, json === true));
    });

  process
    .command("resize")
    .summary("change the size of the terminal of a run")
    .description("Change the size of the terminal of a run.")
    .argument("<run>", RUN_ARGUMENT)
    .argument("<rows>", "lines", positiveIntegerUpTo(1_000))
    .argument("<cols>", "columns", positiveIntegerUpTo(2_000))
    .option(...jsonOption)
    .action(async (wanted: string, rows: number, cols: number, { json }: { readonly json?: true }) => {
      const { resizeTerminal } = await import("./input-and-resize.js");
      setExitCode(await resizeTerminal(wanted, rows, cols, json === true));
    });
}
