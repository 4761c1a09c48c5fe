import type { Duplex } from "node:stream";
import { HoldfastError } from "../errors.js";
import type { ResponseOf } from "./contract.js";
import { endpoints } from "./endpoints.js";
import { type ErrorResponse, GatewayError } from "./error-response.js";
import { authorizationOf, connectAuthenticated, type GatewayAddress } from "./authenticated-connection.js";

/** Routes without parameters in their path. */
type PlainRead = "status" | "viewRuns";

/** A gateway empties a full queue of connections within milliseconds. */
const CONNECT_RETRY_MS = 20;

/** `not-listening`: no process listens. `silent`: a process listens and did not answer in time, or closed the connection. */
export type NoAnswer = "not-listening" | "silent";

/**
 * Sends one GET request on a connection of its own, and closes the connection. Without node:http, because loading node:http
 * takes as long as the answer of the gateway. Rejects with GatewayError, GatewayNotProven or UnsafePath.
 */
export async function readOnce<V extends PlainRead>(
  address: GatewayAddress,
  verb: V,
  query: Readonly<Record<string, string | number>>,
  withinMs: number,
): Promise<ResponseOf<V> | NoAnswer> {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) search.set(name, String(value));
  const { path } = endpoints[verb];
  const target = search.size === 0 ? path : `${path}?${search.toString()}`;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), withinMs);
  try {
    const connection = await openConnection(address, late.signal);
    if (typeof connection === "string") return connection;
    const answer = await sendGet(connection, target, late.signal);
    if (answer === null) return "silent";
    if (answer.status === 200) return answer.body as ResponseOf<V>;
    const { error } = (answer.body ?? {}) as Partial<ErrorResponse>;
    throw new GatewayError(error ?? { code: "INTERNAL", message: `the gateway answered ${answer.status}` });
  } finally {
    clearTimeout(timer);
  }
}

function openConnection(address: GatewayAddress, late: AbortSignal): Promise<Duplex | NoAnswer> {
  return new Promise((resolve, reject) => {
    connectAuthenticated(address, late, (error, connection) => {
      if (error === null) return resolve(connection);
      if (error instanceof HoldfastError) return reject(error);
      const { code } = error as NodeJS.ErrnoException;
      // The queue of connections is full; nothing was sent.
      if (code === "EAGAIN" && !late.aborted)
        return void setTimeout(() => resolve(openConnection(address, late)), CONNECT_RETRY_MS);
      resolve(code === "ENOENT" || code === "ECONNREFUSED" ? "not-listening" : "silent");
    });
  });
}

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** Null: the connection broke off, the time is over, or the answer is not complete JSON. */
function sendGet(connection: Duplex, target: string, late: AbortSignal): Promise<Answer | null> {
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    const finish = (): void => {
      late.removeEventListener("abort", finish);
      connection.destroy();
      resolve(parseAnswer(Buffer.concat(parts)));
    };
    late.addEventListener("abort", finish);
    connection
      .on("data", (part: Buffer) => parts.push(part))
      .on("error", () => undefined)
      .on("close", finish);
    const authorization = authorizationOf(connection) ?? "";
    connection.write(
      `GET ${target} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\nauthorization: ${authorization}\r\n\r\n`,
    );
  });
}

/** The routes of PlainRead send their whole answer with its length. */
function parseAnswer(bytes: Buffer): Answer | null {
  const end = bytes.indexOf("\r\n\r\n");
  if (end < 0) return null;
  const head = bytes.toString("latin1", 0, end);
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1] ?? 0);
  const length = Number(/^content-length: *(\d+)\s*$/im.exec(head)?.[1] ?? Number.NaN);
  // Also false for a missing length.
  if (!(bytes.length - end - 4 >= length)) return null;
  try {
    return { status, body: JSON.parse(bytes.toString("utf8", end + 4, end + 4 + length)) };
  } catch {
    return null;
  }
}
