import { HoldfastError } from "./base.js";
import { type FarGateway, formatUtc, peerAdvice, type PeerFailure, PERHAPS_DONE } from "./gateway.js";

/** Why a connection to an ACP agent was closed. */
export type AcpCloseReason =
  | "closed" // by us
  | "ended" // the agent closed its output
  | "frame-too-large"
  | "no-frames" // during a turn, for longer than allowed
  | "request-timeout"
  | "wrong-version"
  | "protocol-error"
  | "output-lost"; // output was dropped before it was read

/** The connection to an ACP agent is closed, and nothing is answered on it any more. The run ends the agent's processes. */
export class AcpClosed extends HoldfastError {
  readonly reason: AcpCloseReason;
  readonly #why: string;
  constructor(reason: AcpCloseReason, why: string, options?: ErrorOptions) {
    super("ACP_CLOSED", `the connection to the agent is closed (${reason}): ${why}`, options);
    this.reason = reason;
    this.#why = why;
  }

  /** Returns the same error with further explanations. */
  and(more: readonly string[]): AcpClosed {
    return new AcpClosed(this.reason, [this.#why, ...more].join("; "), { cause: this.cause });
  }
}

/** An ACP agent did not answer in time. A late answer is counted and dropped; the connection is closed if it depends on the answer. */
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

/** Another gateway holds the session, or was the last to hold it. */
export class AcpNotHeld extends HoldfastError {
  readonly sessionId: string;
  readonly heldBy: string;
  readonly runId: string | null;
  readonly hostId: string | null;
  readonly hostName: string | null;
  /** When that gateway last sent a heartbeat to the store; null if it is not known. */
  readonly lastHeardAt: number | null;
  /** The connection broke after the request was sent, so it is not known whether the peer carried it out. */
  readonly perhapsDone: boolean;
  constructor(
    { sessionId, gatewayInstanceId: heldBy, runId }: AcpSessionHolder,
    { why, gateway, perhapsDone = false, missing = null, ...options }: AcpNotHeldOptions = {},
  ) {
    const { hostId = null, hostName = null, heartbeatAt = null } = gateway ?? {};
    const host = hostId === null ? "" : `, on host ${hostName || hostId}`;
    const heard = heartbeatAt === null ? "" : `; last heard of ${formatUtc(heartbeatAt)}`;
    const unreachable = why === undefined ? "" : `, which cannot be reached: ${why}${heard}`;
    const done = perhapsDone
      ? PERHAPS_DONE
      : `Neither the session nor its processes were touched${missing === null ? "" : `. ${peerAdvice[missing].slice(0, -1)}`}`;
    const lost =
      why === undefined || runId === null
        ? ""
        : `. If that host will not come back, give up its run with \`holdfast runs forget ${runId}\`; then the session can be closed`;
    super(
      "ACP_NOT_HELD",
      `the ACP session ${sessionId} belongs to gateway ${heldBy}${host}${unreachable}. ${done}${lost}`,
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
  /** Absent if that gateway was not asked. */
  readonly why?: string;
  readonly gateway?: FarGateway | null;
}

/** The session is closed, or is being closed. */
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

/** The agent's process is gone, and the command that started it was not kept. */
export class AcpNotRestartable extends HoldfastError {
  readonly sessionId: string;
  constructor(sessionId: string) {
    super(
      "ACP_NOT_RESTARTABLE",
      `the agent of the ACP session ${sessionId} is gone, and its command line was not kept (it contained what looks like a secret, or a program name to find in a session's PATH); close the session and open another`,
    );
    this.sessionId = sessionId;
  }
}

/** An ACP agent answered with an error. Agents use different codes for the same condition. */
export class AcpRefused extends HoldfastError {
  readonly method: string;
  readonly rpcCode: number;
  constructor(method: string, rpcCode: number, said: string) {
    super("ACP_REFUSED", `the agent refused ${method}: ${said} (${rpcCode})`);
    this.method = method;
    this.rpcCode = rpcCode;
  }
}
