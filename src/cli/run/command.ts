import { readFileSync } from "node:fs";
import { isatty } from "node:tty";
import { type Command, InvalidArgumentError, Option } from "commander";
import { defaults } from "../../defaults.js";
import { BadInput, HoldfastError } from "../../errors.js";
import type { OnEscape } from "../../model/run.js";
import type { CommandInput, SpawnOptions } from "../../supervisor/api.js";
import { NAME_LABEL } from "../../model/enums.js";
import { isRunId } from "../../model/ids.js";
import {
  addNotifyOptions,
  misplacedNotifyOption,
  notifyBody,
  type NotifyFlags,
  targetlessNotifyOption,
} from "../client/notify-options.js";
import type { SetExitCode } from "../options/command-definition.js";
import {
  asOptionParser,
  collectPairs,
  collectValues,
  noOutputOption,
  parseCount,
  parseRunName,
  validateLimit,
  parseTcpPort,
} from "../options/parsers.js";
import { parseDuration, parseSize } from "../options/durations-and-sizes.js";
import { formatDuration, formatSize } from "../../text/format-units.js";
import { exitCodes } from "../print/exit-code.js";
import { firstError, reportError } from "../print/errors-and-notices.js";
import { collectVariable, readEnvironmentFiles } from "./environment-options.js";
import type { RequestedRun } from "./foreground-runner.js";

/**
 * The umask of this process, which a command expects to inherit. Undefined if the kernel does not report it:
 * `process.umask()` would have to change it for a moment, while other threads may create files.
 */
export function currentUmask(): number | undefined {
  if (process.platform !== "linux") return undefined;
  try {
    const octal = /^Umask:\s*([0-7]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    return octal === undefined ? undefined : Number.parseInt(octal, 8);
  } catch {
    return undefined;
  }
}

interface RunFlags extends NotifyFlags {
  /** Undefined: by the terminal. */
  readonly pty?: boolean;
  readonly name?: string;
  readonly timeout?: number;
  readonly noOutputTimeout?: number;
  readonly grace: number;
  readonly endWithInput?: number;
  readonly label: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly env: Readonly<Record<string, string>>;
  readonly envFile: readonly string[];
  readonly clearEnv?: true;
  readonly allowEnv: readonly string[];
  readonly merge?: true;
  readonly onEscape: OnEscape;
  readonly buffer: number;
  readonly memory?: number;
  readonly pids?: number;
  readonly cpus?: number;
  readonly detach?: true;
  readonly inProcess?: true;
  readonly service?: true;
  readonly port?: number;
  readonly readyTimeout?: number;
  readonly json?: true;
  readonly requestedRun?: RequestedRun;
}

const examples = `
Exit status: that of the command, or
  128+n  signal n ended it; 130 after Ctrl-C, 141 when its output has no reader
  120    it succeeded, but left detached processes behind
  124    a timeout ended it, or a service was not ready in time
  125    Holdfast itself failed
  126    it cannot be executed, or an exec rule or the operator denied it
  127    it was not found
  2      an option is wrong

Terminal: if stdin, stdout and stderr are the same terminal, the command gets a PTY,
and Ctrl-C is sent to it as a key. If one of them is a pipe or a file, the command
gets pipes: then Ctrl-C sends TERM to the command and everything it started, and a
second Ctrl-C sends KILL. --pty and --no-pty decide explicitly.

Gateway: the command runs under the gateway of the state directory, which is started
in the background if none is running, with the environment, directory and umask of
this process. It ends when this process ends. It continues when the gateway is
killed or restarted, and no input or output is lost. --in-process (or
HOLDFAST_IN_PROCESS=1) needs no gateway: this process supervises the command, and
the command ends if this process is killed.

Examples:
  holdfast run -- npm test
  holdfast run --timeout 30m --no-output-timeout 10m -- codex exec "fix it"
  holdfast run --name web --service --port 3000 -- npm run dev
  holdfast run -d --notify-channel ops -- make release
  holdfast run --memory 2G --pids 200 --cpus 1.5 -- npm test
  holdfast run --label ticket=42 -e CI=1 --env-file .env --json -- make check
`;

export function addRunCommand(program: Command, setExitCode: SetExitCode): void {
  const duration = asOptionParser(parseDuration);
  const run = program
    .command("run")
    .summary("run a command and own every process it starts")
    .description(
      "Run a command and own every process it starts, including background and detached ones, until each is proven to be gone. Input and output pass through unchanged.",
    )
    .usage("[options] -- command [argument…]")
    .argument("<command...>", "the command with its arguments")
    .option("-d, --detach", "run in the background; prints the run id")
    .option("--name <name>", "name the run; other commands accept the name instead of the id", parseRunName)
    .option(
      "-e, --env <name=value>",
      "set a variable, or pass NAME through (repeatable)",
      collectVariable,
      {},
    )
    .option(
      "--env-file <file>",
      "set the variables in a file of NAME=value lines (repeatable)",
      collectValues,
      [],
    )
    .option("--clear-env", "start with an empty environment")
    .option(
      "--allow-env <name>",
      "allow -e to set a variable that can inject code (repeatable)",
      collectValues,
      [],
    )
    .option("--cwd <directory>", "run in this directory")
    .option("--label <key=value>", "put a label on the run (repeatable)", collectPairs, {})
    .option("--pty", "run in a PTY")
    .option("--no-pty", "do not run in a PTY")
    .option("--merge", "use one pipe for stdout and stderr: keeps their order, and all output goes to stdout")
    .option(
      "--timeout <duration>",
      "stop the run after this time: 30m, 1h30m, 10s, 500ms; 0 for never",
      duration,
    )
    .addOption(
      noOutputOption("stop the run when it writes nothing for this time; 0 for never", parseDuration),
    )
    .addOption(
      new Option("--grace <duration>", "time between TERM and KILL")
        .argParser(duration)
        .default(defaults.graceMs, formatDuration(defaults.graceMs)),
    )
    .option(
      "--end-with-input <duration>",
      "stop the command when it has not ended this long after its stdin has",
      duration,
    )
    .addOption(
      new Option("--on-escape <policy>", "what to do when a successful command leaves detached processes")
        .choices(["fail", "sweep"])
        .default("fail"),
    )
    .addOption(
      new Option("--buffer <size>", "output to hold for a slow reader before the command has to wait")
        .argParser(asOptionParser(parseSize))
        .default(defaults.spoolBytes, formatSize(defaults.spoolBytes)),
    )
    .option(
      "--memory <size>",
      "kill the run if its processes together use more memory: 512M, 2G",
      asOptionParser((text) => validateLimit("memoryBytes", parseSize(text))),
    )
    .option(
      "--pids <number>",
      "limit the number of processes and threads",
      asOptionParser((text) => validateLimit("pids", parseCount(text))),
    )
    .option(
      "--cpus <number>",
      "limit CPU time to this many CPUs: 1.5, 0.2",
      asOptionParser((text) => validateLimit("cpus", parseCount(text))),
    )
    .option("--service", "run as a service: it continues when the gateway stops; prints the run id")
    .option(
      "--port <number>",
      "with --service: wait until one of its processes listens on this port",
      parseTcpPort,
    )
    .addOption(
      new Option("--ready-timeout <duration>", "with --port: stop the service if it is not ready by then")
        .argParser(duration)
        .default(undefined, formatDuration(defaults.readyTimeoutMs)),
    );
  addNotifyOptions(run)
    .option("--in-process", "supervise the command in this process, without a gateway")
    // Not for users: the native client leaves a run that it has requested to this process.
    .addOption(new Option("--requested-run <state>").argParser(parseRequestedRun).hideHelp())
    .option("--json", "print the record as JSON on stdout at the end; all output goes to stderr")
    .passThroughOptions()
    .addHelpText("after", examples)
    .action(async (argv: string[], flags: RunFlags) =>
      setExitCode(await startRun(argv, flags).catch(reportRunFailure)),
    );
}

async function startRun(argv: string[], flags: RunFlags): Promise<number> {
  const misplaced = misplacedOption(flags) ?? (await targetlessNotifyOption(flags));
  if (misplaced !== null) throw new BadInput("option", `${misplaced}; nothing was started`);
  const input: CommandInput = (await wantsPty(flags)) ? { io: "pty", argv } : { io: "pipe", argv };
  const options = toSpawnOptions(flags);
  const json = flags.json === true;
  const { checkVariables } = await import("../../supervisor/spawn/environment.js");
  // Before a gateway is started for a request that it would refuse.
  checkVariables(options.env ?? {}, flags.allowEnv);
  if (flags.name !== undefined) await (await import("../client/read-runs.js")).assertNameIsFree(flags.name);
  if (flags.service === true) {
    const { runService } = await import("./detached.js");
    const { port = null, readyTimeout: readyTimeoutMs = defaults.readyTimeoutMs } = flags;
    return runService({ input, options, port, readyTimeoutMs, json });
  }
  if (flags.detach === true) {
    const { runDetached } = await import("./detached.js");
    return runDetached(input, options, notifyBody(flags), json);
  }
  const { runInForeground, isInProcessRequested } = await import("./run-in-foreground.js");
  const { requestedRun: requested, endWithInput } = flags;
  return runInForeground({
    inProcess: requested === undefined && isInProcessRequested(flags.inProcess === true),
    ...{ input, options, json },
    ...(endWithInput === undefined ? {} : { endWithInputMs: endWithInput }),
    ...(requested === undefined ? {} : { requested }),
  });
}

/** As requested; else whether this is the foreground process of a terminal that is stdin, stdout and stderr. */
async function wantsPty({ pty, detach, service, json, merge }: RunFlags): Promise<boolean> {
  if (pty !== undefined) return pty;
  if (detach === true || service === true || json === true || merge === true || !isatty(0)) return false;
  const { isForegroundProcess, isSameTerminal } = await import("./controlling-terminal.js");
  return isSameTerminal() && isForegroundProcess();
}

/** Reports why a run failed to start. A denied command counts as one that may not be executed. */
export function reportRunFailure(error: unknown): number {
  const code = reportError(error);
  const first = firstError(error);
  return first instanceof HoldfastError && first.code === "EXEC_DENIED" ? exitCodes.notExecutable : code;
}

function misplacedOption(flags: RunFlags): string | null {
  const { service, detach, inProcess, port, readyTimeout, timeout, endWithInput } = flags;
  if (inProcess === true && (detach === true || service === true))
    return `${service === true ? "--service" : "--detach"} needs a gateway: leave out --in-process`;
  const misplacedNotify = misplacedNotifyOption(flags);
  if (service === true && misplacedNotify !== null) return `${misplacedNotify}, and a service does not end`;
  if (detach !== true && misplacedNotify !== null) return `${misplacedNotify}: add --detach`;
  if (service !== true && port !== undefined) return "--port is for a service: add --service";
  if (endWithInput !== undefined && (detach === true || service === true))
    return `--end-with-input is for a command in the foreground: leave out ${service === true ? "--service" : "--detach"}`;
  if (port === undefined && readyTimeout !== undefined) return "--ready-timeout needs a --port to wait for";
  if (service === true && timeout !== undefined && timeout > 0)
    return "a service has no --timeout: it runs until it is stopped";
  return null;
}

/** As anchor/client/exec-node.c writes it: run, offsets of stdout, stderr and stdin, first interrupt, number of interrupts. */
function parseRequestedRun(text: string): RequestedRun {
  const [runId = "", ...numbers] = text.split(":");
  const [stdout = 0, stderr = 0, stdin = 0, first = 0, count = 0] = numbers.map(Number);
  if (!isRunId(runId) || numbers.length !== 5 || !numbers.every((number) => /^\d{1,15}$/.test(number)))
    throw new InvalidArgumentError("It is for the native client only.");
  return { runId, stdout, stderr, stdin, interrupts: { first, count } };
}

function toSpawnOptions(flags: RunFlags): SpawnOptions {
  const umask = currentUmask();
  const spool = { boundBytes: flags.buffer, policy: "back-pressure" } as const;
  return {
    ...(flags.cwd === undefined ? {} : { cwd: flags.cwd }),
    env: { ...readEnvironmentFiles(flags.envFile), ...flags.env },
    clearEnv: flags.clearEnv === true,
    allowEnv: flags.allowEnv,
    ...(umask === undefined ? {} : { umask }),
    labels: flags.name === undefined ? flags.label : { ...flags.label, [NAME_LABEL]: flags.name },
    onEscape: flags.onEscape,
    timeoutMs: flags.timeout ?? 0,
    noOutputTimeoutMs: flags.noOutputTimeout ?? 0,
    graceMs: flags.grace,
    limits: { memoryBytes: flags.memory, pids: flags.pids, cpus: flags.cpus },
    merge: flags.merge === true,
    stdout: spool,
    stderr: spool,
  };
}
