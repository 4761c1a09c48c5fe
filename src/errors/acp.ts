import { formatUtc, HoldfastError, SessionError, peerAdvice, PERHAPS_DONE } from "./base.js";
import type { FarGateway, PeerFailure } from "./gateway.js";

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

const CLOSE_REASON_TEXTS: Readonly<Record<AcpCloseReason, string>> = {
  closed: "the connection to the agent was closed",
  ended: "the agent ended, or closed its output",
  "frame-too-large": "the agent sent a message that is too long",
  "no-frames": "the agent was silent for too long",
  "request-timeout": "the agent did not answer in time",
  "wrong-version": "the agent speaks another version of the protocol",
  "protocol-error": "the agent broke the protocol",
  "output-lost": "output of the agent was lost",
};

/** The step that an agent did not finish in time, by the protocol's method. */
const METHOD_TEXTS: ReadonlyMap<string, string> = new Map([
  ["initialize", "introduce itself"],
  ["authenticate", "finish the login"],
  ["session/new", "open a session"],
  ["session/load", "load its session"],
  ["session/resume", "resume its session"],
  ["session/prompt", "answer the prompt"],
  ["session/close", "close its session"],
]);

function timeoutText(method: string, deadlineMs: number): string {
  const what = METHOD_TEXTS.get(method);
  const within = deadlineMs < 1_000 ? `${deadlineMs} ms` : `${Math.round(deadlineMs / 100) / 10} s`;
  return what === undefined
    ? `the agent did not answer ${method} within ${within}`
    : `the agent did not ${what} within ${within} (${method})`;
}

/** The connection to an ACP agent is closed, and nothing is answered on it any more. The run ends the agent's processes. */
export class AcpClosed extends HoldfastError {
  readonly reason: AcpCloseReason;
  readonly #why: string;
  constructor(reason: AcpCloseReason, why: string, options?: ErrorOptions) {
    super("ACP_CLOSED", `${CLOSE_REASON_TEXTS[reason]} (${reason}): ${why}`, options);
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
    super("ACP_TIMEOUT", `${timeoutText(method, deadlineMs)}; the request was not repeated`);
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
    const heard = heartbeatAt === null ? "" : `; last heartbeat ${formatUtc(heartbeatAt)}`;
    const unreachable = why === undefined ? "" : `, which cannot be reached: ${why}${heard}`;
    const done = perhapsDone
      ? PERHAPS_DONE
      : `Neither the session nor its processes were touched${missing === null ? "" : `. ${peerAdvice[missing].slice(0, -1)}`}`;
    const lost =
      why === undefined || runId === null
        ? ""
        : `. If that host will not come back, end the record of its run with \`holdfast runs forget ${runId}\`; then the session can be closed`;
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
export class AcpSessionClosed extends SessionError {
  constructor(sessionId: string) {
    super(
      "ACP_SESSION_CLOSED",
      sessionId,
      `the ACP session ${sessionId} is closed; nothing was sent to its agent`,
    );
  }
}

export class AcpQueueFull extends SessionError {
  constructor(sessionId: string, limit: number) {
    super(
      "ACP_QUEUE_FULL",
      sessionId,
      `${limit} prompts already wait in the ACP session ${sessionId}; this one was not accepted`,
    );
  }
}

/** The agent's process is gone, and the command that started it was not kept. */
export class AcpNotRestartable extends SessionError {
  constructor(sessionId: string) {
    super(
      "ACP_NOT_RESTARTABLE",
      sessionId,
      `the agent of the ACP session ${sessionId} is gone, and its command line was not kept (it may contain a secret, or names a program by its name in a session's PATH); close the session and open another`,
    );
  }
}

/** An ACP agent answered with an error. Agents use different codes for the same condition. */
export class AcpRefused extends HoldfastError {
  readonly method: string;
  readonly rpcCode: number;
  readonly #said: string;
  constructor(method: string, rpcCode: number, said: string) {
    super("ACP_REFUSED", `the agent refused ${method}: ${said} (${rpcCode})`);
    this.method = method;
    this.rpcCode = rpcCode;
    this.#said = said;
  }

  /** The agent's words. */
  get said(): string {
    return this.#said;
  }
}

/** An ACP agent needs a login before it works. */
export class AcpAuthRequired extends HoldfastError {
  readonly method: string;
  readonly rpcCode: number;
  /** The ids of the login methods that the agent offers. */
  readonly authMethods: readonly string[];
  constructor(method: string, rpcCode: number, said: string, login: AgentLogin) {
    super(
      "ACP_AUTH_REQUIRED",
      `the agent needs a login; it answered ${method} with: ${said} (${rpcCode}). ${login.advice}`,
    );
    this.method = method;
    this.rpcCode = rpcCode;
    this.authMethods = login.methods.map(({ id }) => id);
  }
}

/** How to log in to an agent. */
export interface AgentLogin {
  readonly methods: readonly { readonly id: string }[];
  /** A sentence for the user. */
  readonly advice: string;
}
