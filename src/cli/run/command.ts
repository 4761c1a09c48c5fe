import { readFileSync } from "node:fs";
import { type Command, InvalidArgumentError, Option } from "commander";
import { defaults } from "../../defaults.js";
import { BadInput, HoldfastError } from "../../errors.js";
import type { OnEscape } from "../../model/run.js";
import type { CommandInput, SpawnOptions } from "../../supervisor/api.js";
import {
  addNotifyOptions,
  misplacedNotifyOption,
  notifyBody,
  type NotifyFlags,
  targetlessNotifyOption,
} from "../client/notify-options.js";
import { parseCount, validateLimit } from "../options/limits.js";
import { asOptionParser, collectPairs, collectValues, type SetExitCode } from "../options/parsers.js";
import { formatDuration, formatSize, parseDuration, parseSize } from "../options/units.js";
import { exitCodes } from "../print/exit-code.js";
import { firstError, reportError } from "../print/stderr.js";

/**
 * This process's umask, which a command expects to inherit. Undefined where the kernel does not tell:
 * `process.umask()` would have to set it to something else for a moment, and threads of ours create files.
 */
export function currentUmask(): number | undefined {
  try {
    const octal = /^Umask:\s*([0-7]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    return octal === undefined ? undefined : Number.parseInt(octal, 8);
  } catch {
    return undefined;
  }
}

interface RunFlags extends NotifyFlags {
  readonly pty?: true;
  readonly timeout?: number;
  readonly noOutputTimeout?: number;
  readonly grace: number;
  readonly label: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly env: Readonly<Record<string, string>>;
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
}

const examples = `
Exit status: the command's own; otherwise
  128+n  signal n ended it; 130 after Ctrl-C, 141 when nobody reads its output
  120    it succeeded, but left detached processes behind
  124    it was stopped by a timeout; a service that was not ready in time, too
  125    holdfast itself failed
  126    it cannot be executed, or a rule or the operator forbids it
  127    it cannot be found
  2      a mistake in holdfast's own options

Ctrl-C once asks the command and everything it started to terminate, twice
kills them. With --pty, Ctrl-C is a key for the command like any other.

The command runs under the gateway of the state directory, which is started in
the background when none runs, with this environment, directory and umask. It
ends when this process is gone. When the gateway is killed or restarted, the
command goes on, and so do its input and output, byte for byte. --in-process
needs no gateway: this process supervises the command itself, and a killed one
takes it along. HOLDFAST_IN_PROCESS=1 in the environment says the same.

Examples:
  holdfast run -- npm test
  holdfast run --timeout 30m --no-output-timeout 10m -- codex exec "fix it"
  holdfast run --pty -- bash
  holdfast run --service --port 3000 -- npm run dev
  holdfast run --detach --tell ops -- make release
  holdfast run --memory 2G --pids 200 --cpus 1.5 -- npm test
  holdfast run --in-process -- make
  holdfast run --label ticket=42 --env CI=1 --json -- make check
`;

export function addRunCommand(program: Command, setExitCode: SetExitCode): void {
  const duration = asOptionParser(parseDuration);
  const run = program
    .command("run")
    .summary("run a command and own every process it starts until each is gone")
    .description(
      "Run a command and own every process it starts, background and detached ones included, until each is provably gone. Input and output pass through unchanged.",
    )
    .usage("[options] -- command [argument…]")
    .argument("<command...>", "what to run, with its own options")
    .option("--pty", "give the command a terminal of its own")
    .option("--timeout <duration>", "stop it after this long: 30m, 1h30m, 10s, 500ms; 0 for never", duration)
    .addOption(noOutputOption())
    .option("--grace <duration>", "from asking to terminate to killing", duration, defaults.graceMs)
    .option("--label <key=value>", "put a label on the run's record (repeatable)", collectPairs, {})
    .option("--cwd <directory>", "start it there")
    .option("--env <key=value>", "set an environment variable (repeatable)", collectPairs, {})
    .option("--clear-env", "start from an empty environment instead of this one")
    .option(
      "--allow-env <name>",
      "let --env set a variable that injects code (repeatable)",
      collectValues,
      [],
    )
    .option("--merge", "one pipe for stdout and stderr: their order is exact, and all goes to stdout")
    .addOption(
      new Option("--on-escape <policy>", "when a successful command leaves detached processes")
        .choices(["fail", "sweep"])
        .default("fail"),
    )
    .option(
      "--buffer <size>",
      "output held for a slow reader before the command has to wait",
      asOptionParser(parseSize),
      defaults.spoolBytes,
    )
    .option(
      "--memory <size>",
      "kill it when all of its processes together need more: 512M, 2G",
      asOptionParser((text) => validateLimit("memoryBytes", parseSize(text))),
    )
    .option(
      "--pids <number>",
      "refuse it more processes and threads at one time",
      asOptionParser((text) => validateLimit("pids", parseCount(text))),
    )
    .option(
      "--cpus <number>",
      "slow it down to so many CPUs: 1.5, 0.2",
      asOptionParser((text) => validateLimit("cpus", parseCount(text))),
    )
    .option("-d, --detach", "hand it to the gateway and leave; prints the run's id")
    .option("--service", "the same, for something that needs nobody: it goes on when the gateway is gone")
    .option(
      "--port <number>",
      "of a service: wait until one of its own processes listens there",
      parseTcpPort,
    )
    .option(
      "--ready-timeout <duration>",
      `stop it when none does by then (default: ${formatDuration(defaults.readyTimeoutMs)})`,
      duration,
    );
  addNotifyOptions(run)
    .option("--in-process", "supervise it in this process: no gateway is asked or started")
    .option("--json", "at the end, the run's record as JSON on stdout; all of its output goes to stderr")
    .passThroughOptions()
    .configureHelp({
      optionDescription: ({ description, argChoices, defaultValue, long }) => {
        if (long === "--grace") return `${description} (default: ${formatDuration(defaults.graceMs)})`;
        if (long === "--buffer") return `${description} (default: ${formatSize(defaults.spoolBytes)})`;
        if (argChoices === undefined) return description;
        const otherwise = defaultValue === undefined ? "" : ` (default: ${String(defaultValue)})`;
        return `${description}: ${argChoices.join(" or ")}${otherwise}`;
      },
    })
    .addHelpText("after", examples)
    .action(async (argv: string[], flags: RunFlags) =>
      setExitCode(await startRun(argv, flags).catch(reportRunFailure)),
    );
}

async function startRun(argv: string[], flags: RunFlags): Promise<number> {
  const input: CommandInput = flags.pty === true ? { io: "pty", argv } : { io: "pipe", argv };
  const misplaced = misplacedOption(flags);
  if (misplaced !== null) throw new BadInput("option", `${misplaced}; nothing was started`);
  const options = toSpawnOptions(flags);
  const json = flags.json === true;
  const { checkVariables } = await import("../../supervisor/spawn/environment.js");
  // Before a gateway is started for what it would refuse.
  checkVariables(flags.env, flags.allowEnv);
  if (flags.service === true) {
    const { runService } = await import("./detach.js");
    const { port = null, readyTimeout: readyTimeoutMs = defaults.readyTimeoutMs } = flags;
    return runService({ input, options, port, readyTimeoutMs, json });
  }
  if (flags.detach === true) {
    const { runDetached } = await import("./detach.js");
    return runDetached(input, options, notifyBody(flags), json);
  }
  const [{ runInForeground }, { isInProcessRequested }] = await Promise.all([
    import("./foreground.js"),
    import("./foreground.js"),
  ]);
  return runInForeground({ inProcess: isInProcessRequested(flags.inProcess === true), input, options, json });
}

/** A denied command is like a file that one has no leave to execute. */
export function reportRunFailure(error: unknown): number {
  const code = reportError(error);
  const first = firstError(error);
  return first instanceof HoldfastError && first.code === "EXEC_DENIED" ? exitCodes.notExecutable : code;
}

function misplacedOption(flags: RunFlags): string | null {
  const { service, detach, inProcess, port, readyTimeout, timeout } = flags;
  if (inProcess === true && (detach === true || service === true))
    return `${service === true ? "--service" : "--detach"} is the gateway's to look after: leave out --in-process`;
  const untold = misplacedNotifyOption(flags);
  if (service === true && untold !== null) return `${untold} that ends: a service is not meant to`;
  if (detach !== true && untold !== null) return `${untold}: add --detach`;
  if (service !== true && port !== undefined) return "--port is for a service: add --service";
  if (port === undefined && readyTimeout !== undefined) return "--ready-timeout needs a --port to wait for";
  if (service === true && timeout !== undefined && timeout > 0)
    return "a service has no --timeout: it runs until it is stopped";
  return targetlessNotifyOption(flags);
}

function parseTcpPort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535) throw new InvalidArgumentError("Write a TCP port, from 1 to 65535.");
  return port;
}

/** Commander would take `--no-…` for a switch that turns `--output-timeout` off; this one takes a value. */
function noOutputOption(): Option {
  const option = new Option(
    "--no-output-timeout <duration>",
    "stop it when it is silent for this long; 0 for never",
  );
  option.negate = false;
  return option.argParser(asOptionParser(parseDuration));
}

function toSpawnOptions(flags: RunFlags): SpawnOptions {
  const umask = currentUmask();
  const spool = { boundBytes: flags.buffer, policy: "back-pressure" } as const;
  return {
    ...(flags.cwd === undefined ? {} : { cwd: flags.cwd }),
    env: flags.env,
    clearEnv: flags.clearEnv === true,
    allowEnv: flags.allowEnv,
    ...(umask === undefined ? {} : { umask }),
    labels: flags.label,
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
