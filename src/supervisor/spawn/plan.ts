import { resolve } from "node:path";
import type { SpoolSpec, StartSpec, TerminalSize } from "../../anchor/host-interface.js";
import { canStartWarm } from "../../anchor/warm-anchors.js";
import { requirePort } from "../../anchor/inspect/ports.js";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import { isRunId } from "../../model/ids.js";
import {
  FIRST_EPOCH,
  type RunDeadlines,
  type RunIo,
  type RunKind,
  type RunPolicy,
  type ServiceFacts,
} from "../../model/run.js";
import type { NewRun } from "../../store/runs/contract.js";
import { commandHash, displayCommand } from "../../text/redact.js";
import type { CommandInput, SpawnOptions } from "../api.js";
import {
  checkLabels,
  checkLimits,
  checkOneOf,
  checkOptionalLimit,
  checkOwnership,
  checkTerminalSize,
  checkUmask,
  checkWholeNumber,
} from "../check-options.js";
import type { SupervisorContext } from "../run/live-run.js";
import { buildEnvironment } from "./environment.js";
import {
  type LaunchCommand,
  resolveShellWords,
  resolveWindowsCommand,
  type WindowsContext,
  windowsShellWords,
} from "./windows-command.js";

/** The shell of a `ptyCommand` without one. */
const DEFAULT_SHELL = "/bin/sh";

/** The kernel's MAX_ARG_STRLEN: one argument or variable, with its final NUL. */
const MAX_STRING_BYTES = 128 * 1024;
/** A quarter of the usual 8 MiB stack: the limit of execve(2) for all strings and their pointers. */
const MAX_TOTAL_BYTES = 2 * 1024 * 1024;
const POINTER_BYTES = 8;

interface CheckedCommand {
  readonly argv: readonly string[];
  readonly io: RunIo;
}

/** The command to execute. Throws BadInput: input from JSON and JavaScript is not typed. */
export function checkCommand(input: CommandInput): CheckedCommand {
  const argv = argvOf(input);
  if (argv.length === 0 || argv[0] === "")
    throw new BadInput("command", "the command is empty; name a program to run");
  for (const word of argv)
    if (word.includes("\0"))
      throw new BadInput(
        "command",
        "the command contains a NUL character, which cannot be part of an argument",
      );
  return { argv, io: input.io };
}

/** Refuses, before anything is recorded, what execve would refuse with E2BIG. */
export function checkExecSize(argv: readonly string[], env: Readonly<Record<string, string>>): void {
  let total = 0;
  const count = (text: string, what: string): void => {
    const bytes = Buffer.byteLength(text) + 1;
    if (bytes > MAX_STRING_BYTES)
      throw new BadInput(
        "command",
        `${what} has ${bytes - 1} bytes; the limit of the system is ${MAX_STRING_BYTES - 1}`,
      );
    total += bytes + POINTER_BYTES;
  };
  for (const [at, word] of argv.entries()) count(word, `argument ${at}`);
  for (const [name, value] of Object.entries(env))
    count(`${name}=${value}`, `the environment variable ${name}`);
  if (total > MAX_TOTAL_BYTES)
    throw new BadInput(
      "command",
      `command and environment need ${total} bytes together; the limit of the system is ${MAX_TOTAL_BYTES}. Pass large data on stdin or in a file`,
    );
}

function argvOf(input: unknown): readonly string[] {
  if (!isObject(input)) throw badShape("it is not an object");
  const { io, argv, ptyCommand, shell } = input;
  if (io !== "pipe" && io !== "pty")
    throw badShape(`io is ${JSON.stringify(io) ?? "missing"}, not "pipe" or "pty"`);
  if (ptyCommand === undefined) {
    if (shell !== undefined) throw badShape("a shell needs a ptyCommand");
    if (!Array.isArray(argv) || !argv.every((word) => typeof word === "string"))
      throw badShape("argv is not a list of strings");
    return [...argv];
  }
  if (io !== "pty") throw badShape("a ptyCommand needs a PTY");
  if (argv !== undefined) throw badShape("it has both argv and ptyCommand");
  if (typeof ptyCommand !== "string") throw badShape("ptyCommand is not a string");
  if (shell !== undefined && typeof shell !== "string") throw badShape("shell is not a string");
  if (ptyCommand.trim() === "") throw new BadInput("command", "the ptyCommand is empty; nothing would run");
  if (process.platform === "win32") return windowsShellWords(shell, ptyCommand);
  return [shell ?? DEFAULT_SHELL, "-c", ptyCommand];
}

function isObject(value: unknown): value is Record<"io" | "argv" | "ptyCommand" | "shell", unknown> {
  return typeof value === "object" && value !== null;
}

function badShape(why: string): BadInput {
  return new BadInput(
    "command",
    `the command is none of { io: "pipe", argv }, { io: "pty", argv }, { io: "pty", ptyCommand, shell? }: ${why}`,
  );
}

/** A checked spawn request. Nothing is recorded yet. */
export interface SpawnPlan {
  /** Null: a new id. */
  readonly runId: string | null;
  readonly canStartWarm: boolean;
  readonly command: string;
  readonly kind: RunKind;
  readonly policy: RunPolicy;
  readonly deadlines: RunDeadlines;
  readonly service: ServiceFacts | null;
  /** The complete input; null: it is written later, if at all. */
  readonly input: string | null;
  record(runId: string, leaseId: string): NewRun;
  start(runId: string, leaseId: string): StartSpec;
}

export function planSpawn(context: SupervisorContext, input: CommandInput, options: SpawnOptions): SpawnPlan {
  const { argv, io } = checkCommand(input);
  const isShell = "ptyCommand" in input;
  const cwd = resolveCwd(options.cwd);
  const command = displayCommand(argv);
  const kind = checkOneOf("kind", options.kind ?? "task", ["task", "service"]);
  const labels = checkLabels(options.labels ?? {});
  const size: TerminalSize = checkTerminalSize(options.size ?? { rows: defaults.rows, cols: defaults.cols });
  const mask = checkUmask(options.umask);
  const stdout = spoolSpec("stdout", options.stdout);
  const stderr = spoolSpec("stderr", options.stderr);
  const { input: allInput = null } = options;
  if (allInput !== null && typeof allInput !== "string")
    throw new BadInput("input", `the input must be text, not ${JSON.stringify(allInput)}`);
  const stdin = checkOneOf("stdin", allInput === null ? (options.stdin ?? "pipe") : "pipe", ["pipe", "null"]);
  const policy: RunPolicy = {
    graceMs: checkWholeNumber("graceMs", options.graceMs ?? defaults.graceMs),
    settleMs: defaults.settleMs,
    drainMs: defaults.drainMs,
    killReportMs: defaults.killReportMs,
    ownerLossMs: checkWholeNumber("ownerLossMs", options.ownerLossMs ?? defaults.ownerLossMs),
    onEscape: checkOneOf("onEscape", options.onEscape ?? "fail", ["fail", "sweep"]),
    onOrphan: checkOneOf("onOrphan", options.onOrphan ?? "adopt", ["adopt", "terminate"]),
    callerBound: options.callerBound ?? false,
  };
  const deadlines: RunDeadlines = {
    overallMs: checkOptionalLimit("timeoutMs", options.timeoutMs),
    noOutputMs: checkOptionalLimit("noOutputTimeoutMs", options.noOutputTimeoutMs),
  };
  const limits = checkLimits(options.limits);
  const service = serviceFacts(kind, options.port);
  const { sessionKey, sessionId, backendId, agentId, taskId } = checkOwnership(options);
  return {
    runId: options.runId === undefined ? null : checkRunId(options.runId),
    canStartWarm: canStartWarm({ io, limits }),
    command,
    kind,
    policy,
    deadlines,
    service,
    input: allInput,
    record: (runId, leaseId) => ({
      runId,
      leaseId,
      sessionKey,
      sessionId,
      backendId,
      agentId,
      labels,
      kind,
      io,
      command,
      commandHash: commandHash(argv),
      cwd,
      ...context.host.machine,
      stateId: context.stateId,
      anchorPath: context.host.anchorPath,
      originInstanceId: context.instanceId,
      ownerInstanceId: context.instanceId,
      leaseEpoch: FIRST_EPOCH,
      deadlines,
      policy,
      limits,
      createdAt: context.clock.wall(),
      service,
      imported: null,
    }),
    start: (runId, leaseId) => {
      const env = buildEnvironment({
        base: options.inherit ?? process.env,
        withhold: options.inherit === undefined ? context.withheldEnv : [],
        set: options.env ?? {},
        clear: options.clearEnv ?? false,
        allow: options.allowEnv ?? [],
        markers: { leaseId, instanceId: context.instanceId, runId, sessionKey },
      });
      checkExecSize(argv, env);
      return {
        runId,
        epoch: FIRST_EPOCH,
        ...toLaunchCommand(argv, isShell, { env, cwd }),
        env,
        cwd,
        umask: mask,
        io,
        size,
        merge: options.merge ?? false,
        stdin,
        stdout,
        stderr,
        policy: { ...policy, ...deadlines, kind, backstopMs: defaults.backstopMs },
        limits,
        scope: { sessionKey, sessionId, backendId, agentId, taskId, labels, kind, command },
      };
    },
  };
}

/** The command as the anchor starts it: unchanged, except on Windows. */
function toLaunchCommand(argv: readonly string[], isShell: boolean, context: WindowsContext): LaunchCommand {
  if (process.platform !== "win32") return { argv, verbatim: false };
  return isShell ? resolveShellWords(argv, context) : resolveWindowsCommand(argv, context);
}

function checkRunId(runId: string): string {
  if (isRunId(runId)) return runId;
  throw new BadInput("runId", `${JSON.stringify(runId)} cannot be the id of a run; nothing was started`);
}

/** Absolute, because the launcher has another working directory. The anchor finds out whether it can be entered. */
function resolveCwd(cwd: string | undefined): string {
  if (cwd !== undefined && typeof cwd !== "string")
    throw new BadInput("cwd", `the working directory must be text, not ${JSON.stringify(cwd)}`);
  if (cwd?.includes("\0") === true)
    throw new BadInput("cwd", "the working directory contains a NUL character");
  if (cwd === "")
    throw new BadInput("cwd", "the working directory is empty; leave it out for the current one");
  try {
    return cwd === undefined ? process.cwd() : resolve(cwd);
  } catch (error) {
    throw new BadInput(
      "cwd",
      `the current directory is gone (${(error as Error).message}); name one with cwd`,
    );
  }
}

function serviceFacts(kind: RunKind, port: number | undefined): ServiceFacts | null {
  if (kind === "task" && port !== undefined)
    throw new BadInput("port", "only a service has a port to listen on; nothing was started");
  return kind === "task" ? null : { port: port === undefined ? null : requirePort(port), readyAt: null };
}

function spoolSpec(field: string, wanted: Partial<SpoolSpec> = {}): SpoolSpec {
  return {
    boundBytes: checkWholeNumber(`${field}.boundBytes`, wanted.boundBytes ?? defaults.spoolBytes),
    policy: checkOneOf(`${field}.policy`, wanted.policy ?? "keep-newest", ["keep-newest", "back-pressure"]),
  };
}
