import { connect, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { defaults } from "../defaults.js";
import { GatewayNotProven } from "../errors.js";
import { socketAddress } from "../home/local-socket.js";
import { requireOwnSocket } from "../home/path-trust.js";
import { hashSessionToken, isOperatorToken } from "../sessions/tokens.js";
import { type ErrorResponse, GatewayError } from "./error-response.js";
import {
  CHALLENGE_PATH,
  clientProof,
  isGatewayProof,
  isNonce,
  newNonce,
  NONCE_HEADER,
  PROOF_SCHEME,
  TOKEN_ID_HEADER,
  tokenIdFromHash,
} from "./token-proof.js";

export interface GatewayAddress {
  /** The gateway's socket: `gateway.sock` in the state directory. */
  readonly socketPath: string;
  readonly token: string;
}

/** Largest answer to a challenge that is read: valid answers are much smaller. */
const MAX_RESPONSE_BYTES = 16 * 1024;

const authorizations = new WeakMap<Duplex, string>();

/** The Authorization header of a connection whose gateway has proven itself; undefined: it has not. */
export function authorizationOf(connection: Duplex): string | undefined {
  return authorizations.get(connection);
}

/** Callback with the signature of node:http; with an error, the stream must not be used. */
export type ConnectCallback = (error: Error | null, stream: Duplex) => void;

/**
 * Opens a connection on which the gateway has proven that it knows the token. Before that, only the token's
 * id and a nonce are sent. Fails with UnsafePath, GatewayNotProven, or the error that the gateway answered with.
 */
export function connectAuthenticated(
  address: GatewayAddress,
  signal: AbortSignal | undefined,
  done: ConnectCallback,
): void {
  const { socketPath, token } = address;
  try {
    requireOwnSocket(socketPath);
  } catch (error) {
    return process.nextTick(done, error, new Socket());
  }
  const hash = hashSessionToken(token);
  const client = newNonce();
  const socket = connect({ path: socketAddress(socketPath) });
  let answer = Buffer.alloc(0);
  const settle = (error: Error | null): void => {
    clearTimeout(timeout);
    signal?.removeEventListener("abort", aborted);
    socket.off("data", onData).off("error", settle).off("close", closed);
    if (error === null) return done(null, socket);
    socket.on("error", () => undefined).destroy();
    done(error, socket);
  };
  const fail = (code: string, message: string): void => settle(Object.assign(new Error(message), { code }));
  const aborted = (): void => fail("ABORT_ERR", "the request was aborted");
  const closed = (): void =>
    fail("ECONNRESET", "the gateway closed the connection before it proved that it knows the token");
  const timeout = setTimeout(
    () =>
      fail(
        "ETIMEDOUT",
        `the gateway did not prove that it knows the token within ${defaults.requestMs / 1_000} s`,
      ),
    defaults.requestMs,
  );
  const onData = (part: Buffer): void => {
    answer = Buffer.concat([answer, part]);
    try {
      const proof = parseChallengeResponse(answer, address);
      if (proof === null) return;
      const gateway = proof["nonce"];
      if (!isNonce(gateway)) throw new GatewayNotProven(socketPath, "its answer has no nonce");
      const nonces = { client, gateway };
      if (!isGatewayProof(proof["proof"], hash, nonces))
        throw new GatewayNotProven(socketPath, "its proof is wrong");
      authorizations.set(socket, `${PROOF_SCHEME} ${clientProof(token, hash, nonces)}`);
      settle(null);
    } catch (error) {
      settle(error as Error);
    }
  };
  socket.on("data", onData).on("error", settle).on("close", closed);
  signal?.addEventListener("abort", aborted);
  if (signal?.aborted === true) return aborted();
  socket.write(
    `GET ${CHALLENGE_PATH} HTTP/1.1\r\nhost: gateway\r\n${TOKEN_ID_HEADER}: ${tokenIdFromHash(hash)}\r\n${NONCE_HEADER}: ${client}\r\n\r\n`,
  );
}

/**
 * The body of the answer to a challenge; null: it is not complete yet. The answer is parsed here, because node:http
 * cannot hand over a connection after its first request.
 */
function parseChallengeResponse(
  bytes: Buffer,
  { socketPath, token }: GatewayAddress,
): Readonly<Record<string, unknown>> | null {
  const end = bytes.indexOf("\r\n\r\n");
  const wrong = (): GatewayNotProven =>
    new GatewayNotProven(socketPath, "its answer is not that of a gateway");
  if (bytes.length > MAX_RESPONSE_BYTES) throw wrong();
  if (end < 0) return null;
  const head = bytes.toString("latin1", 0, end);
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1] ?? 0);
  const length = Number(/^content-length: *(\d{1,6})\s*$/im.exec(head)?.[1] ?? Number.NaN);
  if (status === 0 || Number.isNaN(length)) throw wrong();
  const body = bytes.subarray(end + 4);
  if (body.length < length) return null;
  let content: unknown;
  try {
    content = JSON.parse(body.toString("utf8", 0, length));
  } catch {
    throw wrong();
  }
  if (typeof content !== "object" || content === null) throw wrong();
  if (status === 200) return content as Readonly<Record<string, unknown>>;
  const { error } = content as Partial<ErrorResponse>;
  if (typeof error?.code !== "string" || typeof error.message !== "string") throw wrong();
  // A gateway always knows the operator's token; a session's token may have ended.
  if (error.code === "UNAUTHORIZED" && isOperatorToken(token))
    throw new GatewayNotProven(socketPath, "it does not know the operator's token");
  throw new GatewayError(error);
}
