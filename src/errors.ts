/** Every error a caller can meet has a stable code; the sentence says what the system will and will not do now. */
export class HoldfastError extends Error {
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** The request cannot be carried out as written. Nothing was recorded, nothing was started. */
export class BadInput extends HoldfastError {
  readonly field: string;
  constructor(field: string, message: string) {
    super("BAD_INPUT", message);
    this.field = field;
  }
}

export class LeaseLost extends HoldfastError {
  readonly runId: string;
  readonly epoch: number;
  /** The instance that has it now; null: not known. */
  readonly heldBy: string | null;
  constructor(runId: string, epoch: number, heldBy: string | null = null) {
    const now = heldBy === null ? "" : `: ${heldBy} has taken it over`;
    super(
      "LEASE_LOST",
      `run ${runId} is no longer held under epoch ${epoch}${now}; this supervisor will not touch it`,
    );
    this.runId = runId;
    this.epoch = epoch;
    this.heldBy = heldBy;
  }
}

export class RunExists extends HoldfastError {
  readonly runId: string;
  constructor(runId: string) {
    super("RUN_EXISTS", `run ${runId} is already recorded; nothing was started`);
    this.runId = runId;
  }
}

/** The command could not be started. The record says so too; no instruction of it ran. */
export class SpawnFailed extends HoldfastError {
  readonly runId: string;
  readonly errno: number;
  readonly step: string;
  constructor(runId: string, errno: number, step: string, message: string) {
    super("SPAWN_FAILED", message);
    this.runId = runId;
    this.errno = errno;
    this.step = step;
  }
}

/** A limit was asked for that cannot be set here. */
export class LimitUnavailable extends SpawnFailed {
  override readonly code = "LIMIT_UNAVAILABLE";
}

export class StaleEpoch extends HoldfastError {
  readonly runId: string;
  readonly highestEpoch: number;
  constructor(runId: string, highestEpoch: number) {
    super(
      "STALE_EPOCH",
      `run ${runId} has a newer owner (epoch ${highestEpoch}); this supervisor will not steer it`,
    );
    this.runId = runId;
    this.highestEpoch = highestEpoch;
  }
}

/** The state directory, its store or its lock cannot be used. */
export class StateUnusable extends HoldfastError {
  readonly path: string;
  constructor(path: string, message: string, options?: ErrorOptions) {
    super("STATE_UNUSABLE", message, options);
    this.path = path;
  }
}

/** Another user could replace a file of this user's Holdfast or listen on its sockets. Nothing was sent or started. */
export class UnsafePath extends StateUnusable {
  override readonly code = "UNSAFE_PATH";
}

/** An older Holdfast has written it: a reader leaves it as it is, a gateway brings it up to date. */
export class StoreOutdated extends StateUnusable {}

/** The state directory is a copy of another: its ids and open runs are the original's. Nothing was touched or started. */
export class StateCopied extends StateUnusable {
  override readonly code = "STATE_COPIED";
  readonly original: string;
  constructor(home: string, original: string, originalThere: boolean) {
    const moved = originalThere
      ? ""
      : `, or \`holdfast state keep-identity\` if it takes the place of the original, which is gone`;
    super(
      home,
      `the state directory ${home} is a copy of ${original}, whose runs are not its own. Nothing was touched or started. Make it a state directory of its own with \`holdfast state reset-identity\`${moved}`,
    );
    this.original = original;
  }
}

/** The database does not answer now, or takes no writes: it may do so again by itself. */
export class StoreAway extends StateUnusable {
  override readonly code = "STORE_AWAY";
}

/** The store could not be read while looking up a record, so it is not known whether the record exists. The cause says what was recorded. */
export class StoreUnreadable extends HoldfastError {
  constructor(what: string, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(
      "STORE_UNREADABLE",
      `${what}: the store cannot be read, so it is not known whether this exists: ${why}`,
      { cause },
    );
  }
}

export class InstanceLocked extends HoldfastError {
  readonly instanceId: string;
  constructor(
    instanceId: string,
    message = `instance ${instanceId} is in use by another live supervisor; nothing was changed`,
  ) {
    super("INSTANCE_LOCKED", message);
    this.instanceId = instanceId;
  }
}

/** Another process of the same instance has replaced this one, which no longer controls or signals runs. */
export class InstanceTaken extends HoldfastError {
  readonly instanceId: string;
  constructor(instanceId: string, evidence: string) {
    super(
      "INSTANCE_TAKEN",
      `another process of instance ${instanceId} has replaced this one: ${evidence}. This process has stopped and left all runs to the other process; no run was ended`,
    );
    this.instanceId = instanceId;
  }
}

export class AnchorUnusable extends HoldfastError {
  readonly path: string;
  constructor(path: string, message: string, options?: ErrorOptions) {
    super("ANCHOR_UNUSABLE", message, options);
    this.path = path;
  }
}

export class RunNotFound extends HoldfastError {
  readonly runId: string;
  constructor(runId: string) {
    super("RUN_NOT_FOUND", `no run ${runId}`);
    this.runId = runId;
  }
}

/** Input that can no longer reach the program. What the anchor accepted before has reached it or its pipe. */
export class StdinClosed extends HoldfastError {
  readonly runId: string;
  constructor(runId: string, why: string) {
    super("STDIN_CLOSED", `run ${runId}: ${why}; the input was not delivered`);
    this.runId = runId;
  }
}

/** The program is slower than whoever types into it. */
export class StdinFull extends HoldfastError {
  readonly runId: string;
  constructor(runId: string, waiting: number) {
    super(
      "STDIN_FULL",
      `run ${runId}: ${waiting} bytes of input wait for the program to read them; this was not taken, try again when it has`,
    );
    this.runId = runId;
  }
}

/** This supervisor may watch and stop the run, but not steer it now. */
export class NotSteering extends HoldfastError {
  readonly runId: string;
  constructor(runId: string, why: string) {
    super(
      "NOT_STEERING",
      `run ${runId} cannot be steered: ${why}; stopping it and reading its output still work`,
    );
    this.runId = runId;
  }
}

/** The supervisor has been closed. What it says of its runs is in the message. */
export class SupervisorClosed extends HoldfastError {
  readonly instanceId: string;
  constructor(instanceId: string, message: string) {
    super("SUPERVISOR_CLOSED", `supervisor ${instanceId} is closed: ${message}`);
    this.instanceId = instanceId;
  }
}

/** A run can be given up on only while some of it has survived its KILL. */
export class NothingToAbandon extends HoldfastError {
  readonly runId: string;
  constructor(runId: string, why: string) {
    super("NOTHING_TO_ABANDON", `run ${runId} cannot be abandoned: ${why}. Nothing was changed`);
    this.runId = runId;
  }
}

/** A process that no evidence connects with a run. */
export class NotOurs extends HoldfastError {
  readonly pid: number;
  constructor(pid: number, why: string) {
    super("NOT_OURS", `process ${pid} belongs to no run that is known here: ${why}`);
    this.pid = pid;
  }
}

/** A process of a run cannot become a service of its own now. */
export class NotAdopted extends HoldfastError {
  readonly runId: string;
  constructor(runId: string, why: string) {
    super("NOT_ADOPTED", `nothing was adopted out of run ${runId}, and nothing was changed: ${why}`);
    this.runId = runId;
  }
}

/** What was asked for is not there; or the one who asks may not see it, which looks the same. */
export class NotFound extends HoldfastError {
  constructor(what: string) {
    super("NOT_FOUND", `there is no ${what}`);
  }
}

export class Unauthorized extends HoldfastError {
  constructor(why: string) {
    super("UNAUTHORIZED", `${why}; nothing was done`);
  }
}

/** A browser's page, or a name, that is not this machine's own asks over TCP. */
export class ForeignOrigin extends HoldfastError {
  readonly header: string;
  constructor(header: "Host" | "Origin", value: string) {
    super(
      "FOREIGN_ORIGIN",
      `the ${header} ${JSON.stringify(value)} is not served here: only this machine's own names are; nothing was done`,
    );
    this.header = header;
  }
}

export class TooLarge extends HoldfastError {
  readonly limit: number;
  constructor(limit: number) {
    super("TOO_LARGE", `the request is larger than ${limit} bytes; nothing was done`);
    this.limit = limit;
  }
}

/** The caller has reached a limit: requests per second, or requests, connections or bytes at the same time. */
export class TooManyRequests extends HoldfastError {
  /** True if the connection itself exceeds a limit. The gateway closes it after the answer. */
  readonly close: boolean;
  constructor(limit: string, { close = false }: { readonly close?: boolean } = {}) {
    super(
      "TOO_MANY_REQUESTS",
      `too many requests: the caller already has ${limit}; nothing was done, try again in a moment`,
    );
    this.close = close;
  }
}

/** The session has reached its limit of open streams. */
export class TooManyStreams extends HoldfastError {
  constructor(limit: number) {
    super(
      "TOO_MANY_STREAMS",
      `too many streams: the session already has ${limit} open (events, updates, attached terminals); nothing was done, close one and try again`,
    );
  }
}

/** The stored records of a session have reached their size limit. */
export class SessionStorageFull extends HoldfastError {
  readonly sessionId: string;
  constructor(sessionId: string, limit: number) {
    super(
      "SESSION_STORAGE_FULL",
      `the records of session ${sessionId} have reached the limit of ${limit} bytes; nothing was started. Try again when old records of ended runs and tasks have been removed, or use another session`,
    );
    this.sessionId = sessionId;
  }
}

/** No gateway answers, and this command needs one. */
export class GatewayUnreachable extends HoldfastError {
  constructor(why: string, options?: ErrorOptions) {
    super("GATEWAY_UNREACHABLE", why, options);
  }
}

/** The process that listens on the gateway's socket did not prove that it knows the token. Only the token's id and a nonce were sent to it. */
export class GatewayNotProven extends HoldfastError {
  readonly socketPath: string;
  constructor(socketPath: string, why: string) {
    super(
      "GATEWAY_NOT_PROVEN",
      `the process that listens on ${socketPath} did not prove that it knows the token (${why}); nothing but the token's id and a nonce was sent to it. If the gateway was started by an earlier version, run holdfast gateway restart`,
    );
    this.socketPath = socketPath;
  }
}

/** A gateway runs and does not answer: it is stopped, hangs, or has lost its socket. */
export class GatewaySilent extends HoldfastError {
  /** Null: it is not known. */
  readonly pid: number | null;
  constructor(pid: number | null, message: string) {
    super("GATEWAY_SILENT", message);
    this.pid = pid;
  }
}

/** A gateway elsewhere, as far as it matters to who cannot reach it. */
export interface FarGateway {
  readonly instanceId: string;
  readonly hostId: string;
  readonly hostName: string;
  readonly heartbeatAt: number | null;
}

export interface PeerFailure extends ErrorOptions {
  readonly perhapsDone?: boolean;
  /** What is not there that would be needed; null: nothing that is known, it does not answer. */
  readonly missing?: keyof typeof peerAdvice | null;
}

/** The run is on another host, and the gateway there does not answer. Stopping it is handed over all the same. */
export class PeerUnreachable extends HoldfastError {
  readonly runId: string;
  readonly hostId: string;
  readonly hostName: string;
  /** When its gateway last told the store that it is there; null: it never has. */
  readonly lastHeardAt: number | null;
  /** The connection broke when it had been asked: whether it was done is not known here. */
  readonly perhapsDone: boolean;
  constructor(
    runId: string,
    { instanceId, hostId, hostName, heartbeatAt }: FarGateway,
    why: string,
    { perhapsDone = false, missing = null, ...options }: PeerFailure = {},
  ) {
    const heard = heartbeatAt === null ? "it was never heard of" : `last heard of ${formatUtc(heartbeatAt)}`;
    const done = perhapsDone
      ? "It had been asked, and may have done it all the same: look before you ask again."
      : `Nothing was done. ${missing === null ? "Ask again, or on that host." : peerAdvice[missing]}`;
    const stops =
      missing === "gateway"
        ? "stops the run as soon as a gateway is there"
        : "needs no connection to it: the store passes that on";
    super(
      "PEER_UNREACHABLE",
      `run ${runId} is on host ${hostName || hostId}, and its gateway ${instanceId} cannot be reached from here: ${why}; ${heard}. ${done} \`holdfast runs cancel\` ${stops}`,
      options,
    );
    this.perhapsDone = perhapsDone;
    this.runId = runId;
    this.hostId = hostId;
    this.hostName = hostName;
    this.lastHeardAt = heartbeatAt;
  }
}

/** What to do when it is no use to ask again. */
const peerAdvice = {
  gateway: "Start a gateway there.",
  listener: "Ask on that host, or let its gateway listen.",
  here: "Start one and ask again, or ask on that host.",
} as const;

function formatUtc(at: number): string {
  return `${new Date(at).toISOString().replace("T", " ").slice(0, 19)} UTC`;
}

/** The run, or the host, is not one that will not come back. */
export class NotForgotten extends HoldfastError {
  constructor(what: string, why: string) {
    super("NOT_FORGOTTEN", `${what} is not forgotten: ${why}. Nothing was changed`);
  }
}

/** A gateway belongs to no run: it would end with it. */
export class InsideRun extends HoldfastError {
  constructor(verb: string) {
    super(
      "INSIDE_RUN",
      `a gateway is not ${verb} from inside a run, which it would end with; nothing was done. Do it outside, or let the command's own process supervise: holdfast run --in-process`,
    );
  }
}

/** A session's token was about to do what only the operator may. */
export class OperatorOnly extends HoldfastError {
  constructor(what: string) {
    super(
      "OPERATOR_ONLY",
      `only the operator may ${what}, and HOLDFAST_TOKEN acts for a session; nothing was done. HOLDFAST_AS_OPERATOR=1 acts as the operator`,
    );
  }
}

/** The key belongs to an open session that is not the one asked for. */
export class SessionTaken extends HoldfastError {
  readonly key: string;
  constructor(key: string, why: string) {
    super("SESSION_TAKEN", `session key ${key} is taken: ${why}; no session was opened`);
    this.key = key;
  }
}

/** Nothing can be said in it any more. */
export class SessionClosed extends HoldfastError {
  readonly sessionId: string;
  constructor(sessionId: string) {
    super("SESSION_CLOSED", `session ${sessionId} has ended; nothing was sent or started`);
    this.sessionId = sessionId;
  }
}

/** An agent's command is at work in it. */
export class SessionBusy extends HoldfastError {
  readonly sessionId: string;
  readonly runId: string;
  constructor(sessionId: string, runId: string) {
    super(
      "SESSION_BUSY",
      `session ${sessionId} is at work (${runId}), and takes one prompt at a time; nothing was started`,
    );
    this.sessionId = sessionId;
    this.runId = runId;
  }
}

/** The session has as many messages waiting for it as it may. */
export class InboxFull extends HoldfastError {
  readonly sessionId: string;
  constructor(sessionId: string, limit: number) {
    super("INBOX_FULL", `${limit} messages wait for session ${sessionId} already; this one was not sent`);
    this.sessionId = sessionId;
  }
}

/** What was said of a task comes too late or too early. The task's history says so. */
export class TaskRefused extends HoldfastError {
  readonly taskId: string;
  readonly why: "ended" | "not-started";
  constructor(taskId: string, status: string, why: "ended" | "not-started") {
    super(
      "TASK_REFUSED",
      why === "ended"
        ? `task ${taskId} has ended (${status}), which is final; nothing was changed`
        : `task ${taskId} has not begun, and cannot have ended so; nothing was changed`,
    );
    this.taskId = taskId;
    this.why = why;
  }
}

/** The session has as many questions waiting for an answer as it may. */
export class TooManyApprovals extends HoldfastError {
  readonly sessionId: string;
  constructor(sessionId: string, limit: number) {
    super(
      "TOO_MANY_APPROVALS",
      `session ${sessionId} already waits for ${limit} approvals; this one was not asked for and nothing was started`,
    );
    this.sessionId = sessionId;
  }
}

/** A session may not execute that: by a rule, or by the person who was asked. */
export class ExecDenied extends HoldfastError {
  constructor(why: string) {
    super("EXEC_DENIED", `the command was not allowed: ${why}; nothing was started`);
  }
}

/** Why a connection to an ACP agent is over. */
export type AcpCloseReason =
  | "closed" // by us
  | "ended" // the agent's output
  | "frame-too-large"
  | "no-frames" // in a turn, for longer than allowed
  | "request-timeout"
  | "wrong-version"
  | "protocol-error"
  | "output-lost"; // bytes that nobody has read are gone

/** The connection to an ACP agent is over: nothing is answered on it any more. Its processes are the run's to end. */
export class AcpClosed extends HoldfastError {
  readonly reason: AcpCloseReason;
  readonly #why: string;
  constructor(reason: AcpCloseReason, why: string, options?: ErrorOptions) {
    super("ACP_CLOSED", `the connection to the agent is closed (${reason}): ${why}`, options);
    this.reason = reason;
    this.#why = why;
  }

  /** The same, and what became known since. */
  and(more: readonly string[]): AcpClosed {
    return new AcpClosed(this.reason, [this.#why, ...more].join("; "), { cause: this.cause });
  }
}

/** An ACP agent did not answer in time. A late answer is counted and dropped; where nothing works without it, the connection is closed. */
export class AcpTimeout extends HoldfastError {
  readonly method: string;
  readonly deadlineMs: number;
  constructor(method: string, deadlineMs: number) {
    super(
      "ACP_TIMEOUT",
      `the agent did not answer ${method} within ${deadlineMs} ms; it was not asked again`,
    );
    this.method = method;
    this.deadlineMs = deadlineMs;
  }
}

/** Another gateway has the session, or is the last that had it. */
export class AcpNotHeld extends HoldfastError {
  readonly sessionId: string;
  readonly heldBy: string;
  readonly runId: string | null;
  readonly hostId: string | null;
  readonly hostName: string | null;
  /** When that gateway last told the store that it is there; null: that is not known. */
  readonly lastHeardAt: number | null;
  /** The connection broke when it had been asked: whether it was done is not known here. */
  readonly perhapsDone: boolean;
  constructor(
    { sessionId, gatewayInstanceId: heldBy, runId }: AcpSessionHolder,
    { why, gateway, perhapsDone = false, missing = null, ...options }: AcpNotHeldOptions = {},
  ) {
    const { hostId = null, hostName = null, heartbeatAt = null } = gateway ?? {};
    const host = hostId === null ? "" : `, on host ${hostName || hostId}`;
    const heard = heartbeatAt === null ? "" : `; last heard of ${formatUtc(heartbeatAt)}`;
    const away = why === undefined ? "" : `, and cannot be reached there: ${why}${heard}`;
    const done = perhapsDone
      ? "It had been asked, and may have done it all the same: look before you ask again"
      : `Neither it nor its processes were touched${missing === null ? "" : `. ${peerAdvice[missing].slice(0, -1)}`}`;
    const lost =
      why === undefined || runId === null
        ? ""
        : `. If that host will not come back, \`holdfast runs forget ${runId}\` gives its run up, and it can be closed then`;
    super(
      "ACP_NOT_HELD",
      `the ACP session ${sessionId} is gateway ${heldBy}'s${host}${away}. ${done}${lost}`,
      options,
    );
    this.sessionId = sessionId;
    this.heldBy = heldBy;
    this.runId = runId;
    this.hostId = hostId;
    this.hostName = hostName;
    this.lastHeardAt = heartbeatAt;
    this.perhapsDone = perhapsDone;
  }
}

interface AcpSessionHolder {
  readonly sessionId: string;
  readonly gatewayInstanceId: string;
  readonly runId: string | null;
}

interface AcpNotHeldOptions extends PeerFailure {
  /** Left out: it was not asked. */
  readonly why?: string;
  readonly gateway?: FarGateway | null;
}

/** Nothing more is said in a session that is closed, or being closed. */
export class AcpSessionClosed extends HoldfastError {
  readonly sessionId: string;
  constructor(sessionId: string) {
    super("ACP_SESSION_CLOSED", `the ACP session ${sessionId} is closed; nothing was sent to its agent`);
    this.sessionId = sessionId;
  }
}

export class AcpQueueFull extends HoldfastError {
  readonly sessionId: string;
  constructor(sessionId: string, limit: number) {
    super(
      "ACP_QUEUE_FULL",
      `${limit} prompts already wait in the ACP session ${sessionId}; this one was not taken`,
    );
    this.sessionId = sessionId;
  }
}

/** The agent's process is gone, and what started it was not kept. */
export class AcpNotRestartable extends HoldfastError {
  readonly sessionId: string;
  constructor(sessionId: string) {
    super(
      "ACP_NOT_RESTARTABLE",
      `the agent of the ACP session ${sessionId} is gone, and its command line was not kept (it held what looks like a secret, or named a program by the PATH of a session); close the session and open another`,
    );
    this.sessionId = sessionId;
  }
}

/** An ACP agent answered with an error. Its codes vary from agent to agent, also for the same thing. */
export class AcpRefused extends HoldfastError {
  readonly method: string;
  readonly rpcCode: number;
  constructor(method: string, rpcCode: number, said: string) {
    super("ACP_REFUSED", `the agent refused ${method}: ${said} (${rpcCode})`);
    this.method = method;
    this.rpcCode = rpcCode;
  }
}

/** The records of one store cannot be put into another now. Neither was changed. */
export class CopyRefused extends HoldfastError {
  constructor(why: string) {
    super("COPY_REFUSED", `nothing was copied: ${why}`);
  }
}
