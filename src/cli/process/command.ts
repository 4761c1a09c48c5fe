import { type Command, Option } from "commander";
import { asOptionParser, parseOffset, positiveIntegerUpTo, type SetExitCode } from "../options/parsers.js";
import { parseDuration } from "../options/units.js";

const keysExamples = `
Keys: C-c, M-x, C-M-x, S-Tab, Enter, Tab, BSpace, Escape, Space, Up, Down,
Left, Right, Home, End, PageUp, PageDown, Insert, Delete, F1 to F12, with C-,
M- and S- in front; hex:1b5b41 for bytes, literal:text for text. They are sent
as the program's terminal modes want them.

Examples:
  holdfast process send-keys 4k2m C-c
  holdfast process send-keys 4k2m literal:yes Enter
  holdfast process send-keys 4k2m --literal "ls -l"
`;

interface LogFlags {
  readonly stream: "stdout" | "stderr";
  readonly lines: number;
  readonly skip?: number;
  readonly offset?: number;
  readonly bytes: number;
  readonly follow?: true;
  readonly raw?: true;
  readonly json?: true;
}

/** What is done to a run that is there. */
interface PollFlags {
  readonly wait: number;
  readonly stdout: number;
  readonly stderr: number;
  readonly raw?: true;
  readonly json?: true;
}

export function addProcessCommand(program: Command, setExitCode: SetExitCode): void {
  const process = program
    .command("process")
    .summary("what agents do to runs: list, poll, log, write, keys, kill, remove")
    .description(
      "Look at runs and steer them. Looking needs no gateway; what acts starts one when none runs.",
    );
  const run = "its id, or the beginning of it";

  process.commandsGroup("Look:");
  process
    .command("list")
    .summary("runs that go on and runs that have ended, newest first")
    .description(
      "What the one who asks may see: runs that go on and runs that have ended, newest first, but for hidden ones. Only reads.",
    )
    .option("--all", "hidden ones, too")
    .option("--limit <n>", "at most this many", positiveIntegerUpTo(1_000), 100)
    .option("--json", "the records as a JSON array")
    .action(async (flags: { all?: true; limit: number; json?: true }) => {
      const { printVisibleRuns } = await import("../runs/list.js");
      setExitCode(
        await printVisibleRuns({ all: flags.all === true, limit: flags.limit, json: flags.json === true }),
      );
    });

  process
    .command("log")
    .summary("a page of its output, by lines or bytes")
    .description(
      "A page of one stream's output: the last lines, or from a line or a byte on. Consumes nothing.",
    )
    .argument("<run>", run)
    .addOption(new Option("--stream <name>", "which one").choices(["stdout", "stderr"]).default("stdout"))
    .option("-n, --lines <n>", "so many lines", positiveIntegerUpTo(100_000), 200)
    .option("--skip <n>", "from the oldest line kept, passing over so many", parseOffset)
    .addOption(new Option("--offset <byte>", "from this byte on").argParser(parseOffset).conflicts("skip"))
    .option("--bytes <n>", "with --offset: so many bytes", positiveIntegerUpTo(1_048_576), 65_536)
    .option("-f, --follow", "go on until the run has ended")
    .option("--raw", "as it came, escape sequences and all")
    .option("--json", "text with its offsets, one JSON object per piece")
    .action(async (wanted: string, flags: LogFlags) => {
      const { showLogs } = await import("./logs.js");
      const { stream, lines, skip, offset: from, bytes, follow, raw, json } = flags;
      const page =
        from === undefined
          ? { lines, ...(skip === undefined ? {} : { skip }) }
          : { offset: from, maxBytes: bytes };
      setExitCode(
        await showLogs({
          wanted,
          streams: [stream],
          page,
          follow: follow === true,
          raw: raw === true,
          json: json === true,
        }),
      );
    });

  process
    .command("poll")
    .summary("wait for news of it")
    .description(
      "Output since an offset, whether it seems to wait for input, how it ended. Consumes nothing.",
    )
    .argument("<run>", run)
    .option("--wait <duration>", "wait this long for news, at most 30s", asOptionParser(parseDuration), 0)
    .option("--stdout <offset>", "only what stdout has from this byte on", parseOffset, 0)
    .option("--stderr <offset>", "the same for stderr", parseOffset, 0)
    .option(
      "--raw",
      "print the output unchanged, with escape sequences; with --json, add its bytes as base64",
    )
    .option("--json", "as JSON")
    .action(async (wanted: string, flags: PollFlags) => {
      const { pollProcess } = await import("./poll.js");
      const { wait, stdout, stderr } = flags;
      setExitCode(
        await pollProcess({
          wanted,
          waitMs: Math.min(wait, 30_000),
          stdout,
          stderr,
          raw: flags.raw === true,
          json: flags.json === true,
        }),
      );
    });

  process.commandsGroup("Steer:");
  process
    .command("write")
    .summary("bytes for its input")
    .description("Write text, or what comes on stdin, to the run's input.")
    .argument("<run>", run)
    .argument("[text]", "left out: what comes on stdin")
    .option("--close", "no more input after this")
    .option("--json", "what was done, as JSON")
    .action(async (wanted: string, text: string | undefined, flags: { close?: true; json?: true }) => {
      const { writeProcess } = await import("./input.js");
      setExitCode(
        await writeProcess(
          wanted,
          flags.close === true && text === undefined ? "" : (text ?? null),
          flags.close === true,
          flags.json === true,
        ),
      );
    });

  process
    .command("send-keys")
    .summary("press keys in its terminal")
    .description("Press keys in the run's terminal.")
    .argument("<run>", run)
    .argument("<key...>", "names of keys")
    .option("--literal", "the words are text, not names of keys")
    .option("--json", "what was done, as JSON")
    .addHelpText("after", keysExamples)
    .action(async (wanted: string, keys: string[], flags: { literal?: true; json?: true }) => {
      const { sendKeysCommand } = await import("./input.js");
      setExitCode(await sendKeysCommand(wanted, keys, flags.literal === true, flags.json === true));
    });

  process
    .command("paste")
    .summary("paste text, bracketed when the program asked for it")
    .description("Paste text, or what comes on stdin, into the run's terminal.")
    .argument("<run>", run)
    .argument("[text]", "left out: what comes on stdin")
    .option("--submit", "press Enter afterwards")
    .option("--json", "what was done, as JSON")
    .action(async (wanted: string, text: string | undefined, flags: { submit?: true; json?: true }) => {
      const { pasteProcess } = await import("./input.js");
      setExitCode(await pasteProcess(wanted, text ?? null, flags.submit === true, flags.json === true));
    });

  process
    .command("submit")
    .summary("paste a line and press Enter")
    .description("Paste text into the run's terminal and press Enter.")
    .argument("<run>", run)
    .argument("<text>", "the line")
    .option("--json", "what was done, as JSON")
    .action(async (wanted: string, text: string, { json }: { readonly json?: true }) => {
      const { pasteProcess } = await import("./input.js");
      setExitCode(await pasteProcess(wanted, text, true, json === true));
    });

  process
    .command("resize")
    .summary("change its terminal's size")
    .description("Change the size of the run's terminal.")
    .argument("<run>", run)
    .argument("<rows>", "lines", positiveIntegerUpTo(1_000))
    .argument("<cols>", "columns", positiveIntegerUpTo(2_000))
    .option("--json", "what was done, as JSON")
    .action(async (wanted: string, rows: number, cols: number, { json }: { readonly json?: true }) => {
      const { resizeProcess } = await import("./input.js");
      setExitCode(await resizeProcess(wanted, rows, cols, json === true));
    });

  process.commandsGroup("Stop and clean up:");
  process
    .command("kill")
    .summary("stop it; answers gone, or who is left")
    .description(
      "Stop a run and wait until it is gone; answers with the survivors when some cannot be killed. Works without a gateway.",
    )
    .argument("<run>", run)
    .option("--grace <duration>", "from asking to terminate to killing", asOptionParser(parseDuration))
    .option("--json", "as JSON")
    .action(async (wanted: string, flags: { grace?: number; json?: true }) => {
      const { stopProcess } = await import("./stop.js");
      setExitCode(await stopProcess(wanted, flags.grace ?? null, flags.json === true));
    });

  process
    .command("remove")
    .summary("hide it; stop it if it is running")
    .description(
      "Hide a run from lists at once, and stop it if it is running; waits until it is gone. Without a gateway it is stopped and not hidden.",
    )
    .argument("<run>", run)
    .option("--json", "what was done, as JSON")
    .action(async (wanted: string, { json }: { readonly json?: true }) => {
      const { removeProcess } = await import("./stop.js");
      setExitCode(await removeProcess(wanted, json === true));
    });

  process
    .command("clear")
    .summary("hide every run that has ended")
    .description(
      "Hide every ended run of the one who asks: a session's own, or all for the operator. Their records stay.",
    )
    .option("--json", "how many, as JSON")
    .action(async ({ json }: { readonly json?: true }) => {
      const { clearProcesses } = await import("./stop.js");
      setExitCode(await clearProcesses(json === true));
    });
}
