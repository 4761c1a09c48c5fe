import { setTimeout } from "node:timers/promises";
import { isatty } from "node:tty";
import type { StreamName } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import { SpawnFailed } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { CommandInput, Problem, RunEnding, SpawnOptions } from "../../supervisor/api.js";
import { cliActor } from "../actor.js";
import { line } from "../complain.js";
import { exitCodes } from "../exit-code.js";
import { toJson } from "../json.js";
import { lostText } from "../runs/event-text.js";
import { pendingText } from "../runs/status.js";
import { conclude } from "./conclude.js";
import type { ForegroundHost, ForegroundRun } from "./host.js";
import { dieOf, interruptCode, Interrupts } from "./interrupts.js";
import { Outlet, type OutletFailed } from "./outlet.js";
import { passInput } from "./pass-input.js";
import { passOutput } from "./pass-output.js";
import { takeTerminal, terminalSize } from "./terminal.js";

export interface ForegroundRequest {
  readonly input: CommandInput;
  readonly options: SpawnOptions;
  /** No gateway: this process supervises the command itself. */
  readonly inProcess: boolean;
  /** The command's output all goes to stderr; stdout gets the record. */
  readonly json: boolean;
  /** Something else than a command that is to look as if nobody stood between. */
  readonly view?: View;
}

/** What is shown of a run, instead of all that it writes. Its input is not ours then. */
export interface View {
  open(say: (message: string) => void): Promise<ForegroundHost>;
  readonly stdout: (bytes: Uint8Array) => string;
  readonly stderr: (bytes: Uint8Array) => string;
  /** It has ended and all was shown: the last word, and the exit code where the run has none of its own. */
  end(record: RunRecord): Promise<{ readonly stdout: string; readonly complaint: string | null }>;
}

/** An anchor reports what it cannot kill within `killReportMs`; this is how often to look for that. */
const survivorsLookMs = 100;

/** An answer that is on its way when the user interrupts: a run that is there is better cancelled than left. */
const answerMs = 500;

/** Also whoever insists is told what becomes of the run: a reader that reads takes a line in less than this. */
const lastWordMs = 200;

/** `holdfast run`: run one command, be a good pipe or terminal for it. Returns the exit code. */
export async function runInForeground(request: ForegroundRequest): Promise<number> {
  const out = new Outlet(1);
  const err = new Outlet(2);
  const actor = cliActor();
  const say = (message: string, colour: "yellow" | "dim" = "yellow"): void => {
    // A terminal in raw mode does not return the carriage by itself. Whether anybody reads it is not our concern.
    err.write(`${line(message, colour)}${isatty(2) ? "\r\n" : "\n"}`).catch(() => {});
  };
  using interrupts = new Interrupts(actor, say);
  const said = new Set<string>();
  const onProblem = ({ message, cause }: Problem): void => {
    if (said.has(message)) return;
    said.add(message);
    // The first sentence of why: the rest says what does not apply to a run that is already there.
    say(cause instanceof Error ? `${message} (${cause.message.split(". ", 1)[0]})` : message);
  };
  // Who insists before there is a run leaves without one: a gateway may be long in answering.
  const opening = openHost(request, actor, onProblem, (message) => say(message, "dim"));
  const host = await Promise.race([opening, interrupts.insisted]);
  if (host === undefined) return interruptCode(interrupts.first ?? "SIGINT");
  let left = false;
  try {
    const run = await Promise.race([
      spawn(host, request, out),
      request.inProcess ? interrupts.insisted : unasked(interrupts),
    ]);
    if (run === undefined) return interruptCode(interrupts.first ?? "SIGINT");
    interrupts.attach(run);
    const { record, recordPending, outletFailure } = await follow(
      run,
      host,
      request,
      interrupts,
      say,
      out,
      err,
    );
    // What is not on record is left: its directory says how it ended.
    left = record.state !== "exited" || recordPending !== null;
    const { state, survivors } = run;
    const interrupt = interrupts.first;
    const { code, message } = conclude({ record, state, survivors, interrupt, outletFailure });
    if (message !== null) say(message);
    if (recordPending !== null) say(pendingText(record, recordPending));
    const shown = recordPending === null ? record : { ...record, recordPending };
    const told = left && request.view !== undefined ? 0 : await lastWord(request, shown, out, say);
    await Promise.race([err.idle(), patience(interrupts).then(() => setTimeout(lastWordMs))]);
    return code || told;
  } finally {
    await host.close(left);
    // A normal exit would wait for the write that hangs.
    if ((out.stuck || err.stuck) && interrupts.first !== null) dieOf(interrupts.first);
  }
}

async function lastWord(
  { json, view }: ForegroundRequest,
  record: RunRecord,
  out: Outlet,
  say: (message: string) => void,
): Promise<number> {
  if (view === undefined) return json ? tell(toJson(record), record, out, say) : 0;
  const { stdout, complaint } = await view.end(record);
  if (complaint !== null) say(complaint);
  return (await tell(stdout, record, out, say)) || (complaint === null ? 0 : exitCodes.notThere);
}

/** For whoever reads our stdout; what it means for the exit code. */
async function tell(
  text: string,
  record: RunRecord,
  out: Outlet,
  say: (message: string) => void,
): Promise<number> {
  try {
    await out.write(text);
    return 0;
  } catch (error) {
    const { gone, message } = error as OutletFailed;
    if (!gone) say(`${message}; the record of ${record.runId} is not there`);
    return gone ? exitCodes.readerGone : exitCodes.failure;
  }
}

/** Each way loads only what it needs. */
async function openHost(
  { inProcess, view }: ForegroundRequest,
  actor: string,
  onProblem: (problem: Problem) => void,
  say: (message: string) => void,
): Promise<ForegroundHost> {
  if (view !== undefined) return view.open(say);
  if (inProcess) return (await import("./in-process.js")).openInProcess(actor, onProblem);
  return (await import("./through-gateway.js")).openThroughGateway(say);
}

async function spawn(
  host: ForegroundHost,
  { input, options, json, view }: ForegroundRequest,
  out: Outlet,
): Promise<ForegroundRun> {
  const size = input.io === "pty" ? terminalSize() : null;
  try {
    return await host.spawn(input, { ...options, ...(size === null ? {} : { size }) });
  } catch (error) {
    if (json && view === undefined && error instanceof SpawnFailed) {
      const record = await host.getRun(error.runId);
      if (record !== null) await out.write(toJson(record)).catch(() => {});
    }
    throw error;
  }
}

/** Until the run has ended and its output is written, or nobody should wait any longer. */
async function follow(
  run: ForegroundRun,
  host: ForegroundHost,
  { input, json, view }: ForegroundRequest,
  interrupts: Interrupts,
  say: (message: string) => void,
  out: Outlet,
  err: Outlet,
): Promise<RunEnding & { readonly outletFailure: OutletFailed | null }> {
  let outletFailure: OutletFailed | null = null;
  const onFailure = (failure: OutletFailed): void => {
    outletFailure ??= failure;
    run.cancel({ actor: "cli:output-closed" }).catch((error: unknown) => say((error as Error).message));
  };
  const onGap =
    (stream: StreamName) =>
    (bytes: number): void =>
      say(lostText(bytes, stream));
  using _terminal = input.io === "pty" ? takeTerminal(process.stdin, (size) => run.resize(size)) : null;
  using _input = view === undefined ? passInput(run, process.stdin) : null;
  const output = Promise.all([
    passOutput(run, "stdout", json ? err : out, onFailure, onGap("stdout"), view?.stdout),
    passOutput(run, "stderr", err, onFailure, onGap("stderr"), view?.stderr),
  ]);
  // Awaited only after the run has ended; it may fail before.
  output.catch(() => {});
  const ended = await Promise.race([
    run.end(),
    run.outOfSight,
    interrupts.insisted,
    unkillable(run),
    unrecordable(run, interrupts),
  ]);
  const record = ended?.record ?? (await host.getRun(run.runId));
  if (record === null) throw new Error(`run ${run.runId} has no record any more`);
  // A slow reader is waited for, but not for the rest of a run that will not end.
  await Promise.race([output, ended === undefined ? remainder(run) : patience(interrupts)]);
  return { record, recordPending: ended?.recordPending ?? null, outletFailure };
}

/**
 * A gateway may be long in answering: it asks the operator, say. Who interrupts it then does not want the answer any
 * more, and leaves: the gateway drops a question, and ends a run, whose asker has gone.
 */
async function unasked({ requested, insisted }: Interrupts): Promise<undefined> {
  await requested;
  await Promise.race([insisted, setTimeout(answerMs)]);
}

/** Resolves when some processes of a run that is being stopped cannot be killed. */
async function unkillable(run: ForegroundRun): Promise<undefined> {
  while (run.survivors.length === 0) await setTimeout(survivorsLookMs, undefined, { ref: false });
}

/** Resolves when the run has ended, but its end cannot be recorded, and the user has had enough. */
async function unrecordable(run: ForegroundRun, interrupts: Interrupts): Promise<undefined> {
  await interrupts.requested;
  while (run.state !== "exited") await setTimeout(survivorsLookMs, undefined, { ref: false });
  await setTimeout(defaults.drainMs, undefined, { ref: false });
}

/** One that is gone has been waited for already. */
async function remainder(run: ForegroundRun): Promise<void> {
  if (run.state !== "exited") await setTimeout(defaults.drainMs);
}

/** Who has interrupted does not want to wait for ever. */
async function patience({ requested, insisted }: Interrupts): Promise<void> {
  await requested;
  await Promise.race([insisted, setTimeout(defaults.drainMs)]);
}
