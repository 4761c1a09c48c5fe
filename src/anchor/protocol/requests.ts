import { constants } from "node:os";
import { isAbsolute } from "node:path";
import { BadInput } from "../../errors.js";
import type { AnchorLink, AnchorPolicy, MemberSignal, StartSpec, StopRequest } from "./link-contract.js";
import type { RunScope } from "../run-dir/run-file-types.js";
import { newSecret } from "../../model/ids.js";
import type { ProcessIdentity } from "../../model/process.js";
import { encodeMessage } from "./message-codec.js";
import { PROTOCOL } from "./messages.js";

/** The sender, the same on every connection of one supervisor. */
export interface SupervisorIdentity {
  readonly instanceId: string;
  readonly incarnation: string;
}

/** An ordinary environment takes 2 to 8 KiB; growing the buffer in steps would copy it several times. */
const START_SIZE_HINT = 8 * 1024;

const PATH_MAX = 4096;
/** Buffer sizes of the anchor. */
const MAX_STOP_BYTES = { reason: 31, actor: 255, requestId: 127 } as const;

/** Derived times may be fractions; the protocol has whole milliseconds, so they are rounded up. */
export function startFrame(
  protocol: number,
  spec: StartSpec,
  speaker: SupervisorIdentity,
  key: string,
): Buffer {
  const { policy, limits } = spec;
  return encodeMessage(
    "start",
    {
      runId: spec.runId,
      protocol,
      instanceId: speaker.instanceId,
      incarnation: speaker.incarnation,
      epoch: spec.epoch,
      key,
      args: spec.argv,
      verbatim: spec.verbatim === true,
      env: Object.entries(spec.env).map(([name, value]) => `${name}=${value}`),
      cwd: requireWorkingDirectory(spec.cwd),
      umask: spec.umask,
      pty: Number(spec.io === "pty"),
      merge: Number(spec.merge),
      stdin: Number(spec.stdin === "pipe"),
      rows: spec.size.rows,
      cols: spec.size.cols,
      kind: Number(policy.kind === "service"),
      onEscape: Number(policy.onEscape === "sweep"),
      graceMs: Math.ceil(policy.graceMs),
      settleMs: Math.ceil(policy.settleMs),
      drainMs: Math.ceil(policy.drainMs),
      killReportMs: Math.ceil(policy.killReportMs),
      overallMs: encodeDeadline(policy.overallMs),
      noOutputMs: encodeDeadline(policy.noOutputMs),
      ownerLossMs: Math.ceil(policy.ownerLossMs),
      backstopMs: Math.ceil(policy.backstopMs),
      outBound: spec.stdout.boundBytes,
      outPolicy: Number(spec.stdout.policy === "back-pressure"),
      errBound: spec.stderr.boundBytes,
      errPolicy: Number(spec.stderr.policy === "back-pressure"),
      memoryBytes: limits.memoryBytes,
      pids: limits.pids,
      milliCpus: limits.cpus === null ? null : Math.round(limits.cpus * 1000),
      scope: spec.scope === undefined ? null : encodeScope(spec.scope),
    },
    START_SIZE_HINT,
  );
}

export function helloFrame(
  protocol: number,
  runId: string,
  epoch: number,
  speaker: SupervisorIdentity,
  key: string,
): Buffer {
  return encodeMessage("hello", { protocol, runId, ...speaker, epoch, key });
}

export function warmFrame(runId: string, key: string, speaker: SupervisorIdentity): Buffer {
  return encodeMessage("warm", { runId, protocol: PROTOCOL, ...speaker, key });
}

/** A stop must not be refused because of a long text, so texts are cut. */
export function stopFrame(stop: StopRequest): Buffer {
  const { reason, actor, requestId, graceMs } = stop;
  return encodeMessage("stop", {
    reason: clipBytes(reason, MAX_STOP_BYTES.reason),
    actor: clipBytes(actor, MAX_STOP_BYTES.actor),
    requestId: clipBytes(requestId, MAX_STOP_BYTES.requestId),
    graceMs: graceMs === null ? null : Math.ceil(graceMs),
  });
}

export function abandonFrame({ actor, requestId }: Parameters<AnchorLink["abandon"]>[0]): Buffer {
  return encodeMessage("abandon", {
    actor: clipBytes(actor, MAX_STOP_BYTES.actor),
    requestId: clipBytes(requestId, MAX_STOP_BYTES.requestId),
  });
}

/** Creates the key in a run's directory. A process that can read it may stop the run. */
export function newRunKey(): string {
  return newSecret(32);
}

export function adoptFrame(
  runId: string,
  key: string,
  { pid, startTime, uniqueId }: ProcessIdentity,
  graceMs: number,
  scope: RunScope | null,
): Buffer {
  return encodeMessage("adopt", {
    runId,
    key,
    rootPid: pid,
    rootStart: startTime,
    rootUnique: uniqueId,
    graceMs: Math.ceil(graceMs),
    scope: scope === null ? null : encodeScope(scope),
  });
}

/** Buffer size of the anchor, without the final NUL. */
const MAX_SCOPE_BYTES = 2047;

/** Leaves out fields that do not fit, the longest and least useful first: a run must start whatever its labels are. */
export function encodeScope(scope: RunScope): string {
  const none = { sessionKey: null, sessionId: null, backendId: null, agentId: null };
  const shorter = [
    scope,
    { ...scope, command: "" },
    { ...scope, command: "", labels: {} },
    { ...scope, ...none, command: "", labels: {} },
  ];
  const texts = shorter.map((each) => JSON.stringify(each));
  return texts.find((text) => Buffer.byteLength(text) <= MAX_SCOPE_BYTES) ?? "";
}

export function signalFrame(processes: readonly ProcessIdentity[], signal: MemberSignal): Buffer {
  return encodeMessage("signal", {
    signal: memberSignalNumber(signal),
    members: processes.map(packIdentity),
  });
}

/** Numbers of the system, or of Linux on Windows, which has no signals: there the anchor suspends, resumes and ends. */
const WINDOWS_SIGNALS: Readonly<Record<MemberSignal, number>> = {
  SIGTERM: 15,
  SIGKILL: 9,
  SIGSTOP: 19,
  SIGCONT: 18,
};

function memberSignalNumber(signal: MemberSignal): number {
  return process.platform === "win32" ? WINDOWS_SIGNALS[signal] : constants.signals[signal];
}

/** pid, start time and unique id; 0 if there is no unique id. */
function packIdentity({ pid, startTime, uniqueId }: ProcessIdentity): Buffer {
  const bytes = Buffer.alloc(24);
  for (const [at, number] of [pid, startTime, uniqueId ?? 0].entries())
    bytes.writeBigUInt64LE(BigInt(number), 8 * at);
  return bytes;
}

/** Fields that are not in `change` stay. The settle, drain, report and backstop times are fixed at START. */
export function policyFrame(change: Partial<AnchorPolicy>): Buffer {
  const { overallMs, noOutputMs, ownerLossMs, kind, onEscape, graceMs } = change;
  const ifGiven = <T>(value: T | undefined, encode: (value: T) => number): number | null =>
    value === undefined ? null : encode(value);
  return encodeMessage("policy", {
    overallMs: ifGiven(overallMs, encodeDeadline),
    noOutputMs: ifGiven(noOutputMs, encodeDeadline),
    ownerLossMs: ifGiven(ownerLossMs, Math.ceil),
    kind: ifGiven(kind, (each) => Number(each === "service")),
    onEscape: ifGiven(onEscape, (each) => Number(each === "sweep")),
    graceMs: ifGiven(graceMs, Math.ceil),
  });
}

/** The anchor has its own working directory, and no run may get it by accident. */
function requireWorkingDirectory(cwd: string): string {
  if (isAbsolute(cwd) && Buffer.byteLength(cwd) < PATH_MAX) return cwd;
  throw new BadInput(
    "cwd",
    `the working directory must be an absolute path below ${PATH_MAX} bytes; nothing was started`,
  );
}

function clipBytes(text: string, bytes: number): string {
  let clipped = text.replaceAll("\0", "").slice(0, bytes);
  while (Buffer.byteLength(clipped) > bytes) clipped = clipped.slice(0, -1);
  return clipped;
}

/** 0 means no deadline in the protocol; rounding must not remove a requested deadline. */
function encodeDeadline(ms: number | null): number {
  return ms === null ? 0 : Math.max(1, Math.ceil(ms));
}
