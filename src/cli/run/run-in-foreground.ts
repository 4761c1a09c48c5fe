import { setTimeout } from "node:timers/promises";
import { isatty } from "node:tty";
import type { StreamName } from "../../anchor/host-interface.js";
import { defaults } from "../../defaults.js";
import { BadInput, SpawnFailed } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import type { CommandInput, Problem, RunEnding, SpawnOptions } from "../../supervisor/api.js";
import { cliActor, sessionToken } from "../client/requester.js";
import { exitCodes } from "../print/exit-code.js";
import { lostOutputText, pendingRecordText } from "../print/run-status.js";
import { formatNotice } from "../print/errors-and-notices.js";
import { FdWriter, toJson, type WriteFailed } from "../print/write-output.js";
import { INPUT_ENDED, summarizeExit } from "./exit-summary.js";
import type { ForegroundRunner, RequestedRun } from "./foreground-runner.js";
import { RunInterrupts } from "./run-interrupts.js";
import { dieBySignal, interruptExitCode } from "./interrupt-signals.js";
import { type ForegroundRun, forwardOutput, forwardStdin } from "./stdio.js";
import { currentTerminalSize, enterRawTerminal } from "./controlling-terminal.js";

interface ForegroundRequest {
  readonly input: CommandInput;
  readonly options: SpawnOptions;
  /** This process supervises the command, without a gateway. */
  readonly inProcess: boolean;
  /** All output goes to stderr; stdout gets the record. */
  readonly json: boolean;
  /** The command is stopped when it has not ended this long after stdin has. */
  readonly endWithInputMs?: number;
  /** The native client has requested the run and leaves the rest to this process. */
  readonly requested?: RequestedRun;
  /** Shows the output in another form than unchanged bytes. */
  readonly view?: OutputView;
}

/** A view of a run's output. The run gets no stdin. */
export interface OutputView {
  open(notice: (message: string) => void): Promise<ForegroundRunner>;
  readonly stdout: (bytes: Uint8Array) => string;
  readonly stderr: (bytes: Uint8Array) => string;
  /**
   * The run has ended and its output was shown: the last output, and an error that becomes the exit code if the run
   * succeeded.
   */
  finish(record: RunRecord): Promise<{ readonly stdout: string; readonly complaint: string | null }>;
}

/** How often to check for survivors, which an anchor reports within `killReportMs`. */
const SURVIVORS_POLL_MS = 100;

/** Time for an answer that is under way when the user interrupts: a started run should be stopped, not left. */
const LATE_ANSWER_MS = 500;

/** Time to write the last notice, also after a second Ctrl-C: a live reader takes less. */
const FINAL_NOTICE_MS = 200;

/** `holdfast run`: runs one command and connects its stdio. Returns the exit code. */
export async function runInForeground(request: ForegroundRequest): Promise<number> {
  const out = new FdWriter(1);
  const err = new FdWriter(2);
  const actor = cliActor();
  const notice = (message: string, colour: "yellow" | "dim" = "yellow"): void => {
    // A terminal in raw mode needs a carriage return. A failed write has no consequence.
    err.write(`${formatNotice(message, colour)}${isatty(2) ? "\r\n" : "\n"}`).catch(() => {});
  };
  using interrupts = new RunInterrupts(actor, notice, request.requested?.interrupts);
  const reported = new Set<string>();
  const onProblem = ({ message, cause }: Problem): void => {
    if (reported.has(message)) return;
    reported.add(message);
    // The first sentence: the rest is about commands that have not started.
    notice(cause instanceof Error ? `${message} (${cause.message.split(". ", 1)[0]})` : message);
  };
  // An interrupt before the run has started leaves without it: a gateway may take long to answer.
  const opening = openRunner(request, actor, onProblem, (message) => notice(message, "dim"));
  const runner = await Promise.race([opening, interrupts.leaveRequested]);
  if (runner === undefined) return interruptExitCode(interrupts.firstSignal ?? "SIGINT");
  let left = false;
  try {
    const run = await Promise.race([
      spawnRun(runner, request, out),
      request.inProcess ? interrupts.leaveRequested : interruptedBeforeStart(interrupts),
    ]);
    if (run === undefined) return interruptExitCode(interrupts.firstSignal ?? "SIGINT");
    interrupts.attach(run);
    const {
      record,
      recordPending,
      outletFailure: writeFailure,
    } = await followRun(run, runner, request, interrupts, notice, out, err);
    // A run without a final record is left: its directory has the outcome.
    left = record.state !== "exited" || recordPending !== null;
    const { state, survivors } = run;
    const interrupt = interrupts.firstSignal;
    const { code, message } = summarizeExit({ record, state, survivors, interrupt, writeFailure });
    if (message !== null) notice(message);
    if (recordPending !== null) notice(pendingRecordText(record, recordPending));
    const shown = recordPending === null ? record : { ...record, recordPending };
    const resultCode =
      left && request.view !== undefined ? 0 : await printResult(request, shown, out, notice);
    await Promise.race([err.idle(), interruptTimeout(interrupts).then(() => setTimeout(FINAL_NOTICE_MS))]);
    return code || resultCode;
  } finally {
    await runner.close(left);
    // A normal exit would wait for the write that hangs.
    if ((out.hasPendingWrite || err.hasPendingWrite) && interrupts.firstSignal !== null)
      dieBySignal(interrupts.firstSignal);
  }
}

async function printResult(
  { json, view }: ForegroundRequest,
  record: RunRecord,
  out: FdWriter,
  notice: (message: string) => void,
): Promise<number> {
  if (view === undefined) return json ? writeResult(toJson(record), record, out, notice) : 0;
  const { stdout, complaint } = await view.finish(record);
  if (complaint !== null) notice(complaint);
  return (await writeResult(stdout, record, out, notice)) || (complaint === null ? 0 : exitCodes.notThere);
}

/** Writes the result to stdout; returns the exit code of a failed write. */
async function writeResult(
  text: string,
  record: RunRecord,
  out: FdWriter,
  notice: (message: string) => void,
): Promise<number> {
  try {
    await out.write(text);
    return 0;
  } catch (error) {
    const { readerGone, message } = error as WriteFailed;
    if (!readerGone) notice(`${message}; the record of ${record.runId} was not written`);
    return readerGone ? exitCodes.readerGone : exitCodes.failure;
  }
}

/** Loads only the modules that are needed. */
async function openRunner(
  { inProcess, view, requested }: ForegroundRequest,
  actor: string,
  onProblem: (problem: Problem) => void,
  notice: (message: string) => void,
): Promise<ForegroundRunner> {
  if (view !== undefined) return view.open(notice);
  if (inProcess) return (await import("./foreground-runner.js")).openInProcessRunner(actor, onProblem);
  return (await import("./foreground-runner.js")).openGatewayRunner(notice, undefined, requested ?? null);
}

async function spawnRun(
  runner: ForegroundRunner,
  { input, options, json, view }: ForegroundRequest,
  out: FdWriter,
): Promise<ForegroundRun> {
  const size = input.io === "pty" ? currentTerminalSize() : null;
  try {
    return await runner.spawn(input, { ...options, ...(size === null ? {} : { size }) });
  } catch (error) {
    if (json && view === undefined && error instanceof SpawnFailed) {
      const record = await runner.getRun(error.runId);
      if (record !== null) await out.write(toJson(record)).catch(() => {});
    }
    throw error;
  }
}

/** Waits until the run has ended and its output is written, or until waiting is pointless. */
async function followRun(
  run: ForegroundRun,
  runner: ForegroundRunner,
  { input, json, view, requested, endWithInputMs }: ForegroundRequest,
  interrupts: RunInterrupts,
  notice: (message: string) => void,
  out: FdWriter,
  err: FdWriter,
): Promise<RunEnding & { readonly outletFailure: WriteFailed | null }> {
  let writeFailure: WriteFailed | null = null;
  const onFailure = (failure: WriteFailed): void => {
    writeFailure ??= failure;
    run.cancel({ actor: "cli:output-closed" }).catch((error: unknown) => notice((error as Error).message));
  };
  const onGap =
    (stream: StreamName) =>
    (bytes: number): void =>
      notice(lostOutputText(bytes, stream));
  using _terminal = input.io === "pty" ? enterRawTerminal(process.stdin, (size) => run.resize(size)) : null;
  const onInputEnd = async (graceMs: number): Promise<void> => {
    await setTimeout(graceMs, undefined, { ref: false });
    if (run.state !== "exited" && run.service === null) await run.cancel({ actor: INPUT_ENDED });
  };
  const onEnd =
    endWithInputMs === undefined
      ? null
      : (): void =>
          void onInputEnd(endWithInputMs).catch((error: unknown) => notice((error as Error).message));
  using _input = view === undefined ? forwardStdin(run, process.stdin, onEnd) : null;
  const output = Promise.all([
    forwardOutput(
      run,
      "stdout",
      json ? err : out,
      onFailure,
      onGap("stdout"),
      view?.stdout,
      requested?.stdout,
    ),
    forwardOutput(run, "stderr", err, onFailure, onGap("stderr"), view?.stderr, requested?.stderr),
  ]);
  // Awaited after the run has ended; it may fail before.
  output.catch(() => {});
  const ended = await Promise.race([
    run.end(),
    run.unreachable,
    interrupts.leaveRequested,
    survivorsReported(run),
    recordOverdue(run, interrupts),
  ]);
  const record = ended?.record ?? (await runner.getRun(run.runId));
  if (record === null) throw new Error(`run ${run.runId} has no record any more`);
  // Waits for a slow reader, but not for the rest of a run that does not end.
  await Promise.race([output, ended === undefined ? drainTimeout(run) : interruptTimeout(interrupts)]);
  return { record, recordPending: ended?.recordPending ?? null, outletFailure: writeFailure };
}

/**
 * A gateway may take long to answer, for example while it waits for an approval. After an interrupt the client leaves:
 * the gateway drops the approval, and ends a run whose client is gone.
 */
async function interruptedBeforeStart({ firstInterrupt, leaveRequested }: RunInterrupts): Promise<undefined> {
  await firstInterrupt;
  await Promise.race([leaveRequested, setTimeout(LATE_ANSWER_MS)]);
}

/** Resolves when processes of a stopped run cannot be killed. */
async function survivorsReported(run: ForegroundRun): Promise<undefined> {
  while (run.survivors.length === 0) await setTimeout(SURVIVORS_POLL_MS, undefined, { ref: false });
}

/** Resolves after an interrupt when the run has ended and its record cannot be written. */
async function recordOverdue(run: ForegroundRun, interrupts: RunInterrupts): Promise<undefined> {
  await interrupts.firstInterrupt;
  while (run.state !== "exited") await setTimeout(SURVIVORS_POLL_MS, undefined, { ref: false });
  await setTimeout(defaults.drainMs, undefined, { ref: false });
}

/** An ended run needs no more time. */
async function drainTimeout(run: ForegroundRun): Promise<void> {
  if (run.state !== "exited") await setTimeout(defaults.drainMs);
}

/** Limits the wait after an interrupt. */
async function interruptTimeout({ firstInterrupt, leaveRequested }: RunInterrupts): Promise<void> {
  await firstInterrupt;
  await Promise.race([leaveRequested, setTimeout(defaults.drainMs)]);
}

/** By the option, or by the variable. Commands of a session always go through the gateway. */
export function isInProcessRequested(option: boolean): boolean {
  const session = sessionToken() !== null;
  if (option && session)
    throw new BadInput(
      "in-process",
      "--in-process is not for a session: its commands go through the gateway, which knows what it may do; nothing was done. HOLDFAST_AS_OPERATOR=1 acts as the operator",
    );
  return option || (!session && process.env["HOLDFAST_IN_PROCESS"] === "1");
}
