import { formatUtc, HoldfastError, peerAdvice, PERHAPS_DONE } from "./base.js";

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

/** A gateway runs but does not answer: it is stopped, hangs, or has lost its socket. */
export class GatewaySilent extends HoldfastError {
  /** Null if it is not known. */
  readonly pid: number | null;
  constructor(pid: number | null, message: string) {
    super("GATEWAY_SILENT", message);
    this.pid = pid;
  }
}

/** A gateway must not be part of a run, because it would end with the run. */
export class InsideRun extends HoldfastError {
  constructor(verb: string) {
    super(
      "INSIDE_RUN",
      `a gateway cannot be ${verb} from inside a run, because it would end with the run; nothing was done. Do it outside the run, or supervise without a gateway: holdfast run --in-process`,
    );
  }
}

/** The facts about an unreachable peer that an error reports. */
export interface FarGateway {
  readonly instanceId: string;
  readonly hostId: string;
  readonly hostName: string;
  readonly heartbeatAt: number | null;
}

export interface PeerFailure extends ErrorOptions {
  readonly perhapsDone?: boolean;
  /** The part that is known to be missing; null if the peer just does not answer. */
  readonly missing?: keyof typeof peerAdvice | null;
}

/** The run is on another host, and the gateway there does not answer. A request to stop the run is still passed on through the store. */
export class PeerUnreachable extends HoldfastError {
  readonly runId: string;
  readonly hostId: string;
  readonly hostName: string;
  /** When the peer last sent a heartbeat to the store; null if it never has. */
  readonly lastHeardAt: number | null;
  /** The connection broke after the request was sent, so it is not known whether the peer carried it out. */
  readonly perhapsDone: boolean;
  constructor(
    runId: string,
    { instanceId, hostId, hostName, heartbeatAt }: FarGateway,
    why: string,
    { perhapsDone = false, missing = null, ...options }: PeerFailure = {},
  ) {
    const heard = heartbeatAt === null ? "no heartbeat" : `last heartbeat ${formatUtc(heartbeatAt)}`;
    const done = perhapsDone
      ? `${PERHAPS_DONE}.`
      : `Nothing was done. ${missing === null ? "Try again, or on that host." : peerAdvice[missing]}`;
    const stops =
      missing === "gateway"
        ? "stops the run as soon as a gateway runs there"
        : "needs no connection to it: the store passes the request on";
    super(
      "PEER_UNREACHABLE",
      `run ${runId} is on host ${hostName || hostId}, and its gateway ${instanceId} cannot be reached from here: ${why}; ${heard}. ${done} \`holdfast stop\` ${stops}`,
      options,
    );
    this.perhapsDone = perhapsDone;
    this.runId = runId;
    this.hostId = hostId;
    this.hostName = hostName;
    this.lastHeardAt = heartbeatAt;
  }
}
