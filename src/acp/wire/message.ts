import { isUtf8 } from "node:buffer";
import { HoldfastError } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import { redactedExcerpt } from "../../text/redact.js";

/** Deeper than any message. JSON.stringify would fail at a few thousand levels. */
const MAX_DEPTH = 500;

/** More than any message needs: large messages consist of text. Each value costs the parser a microsecond and a hundred bytes. */
const MAX_VALUES = 200_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
/** Brackets and braces differ only in this bit. */
const BRACE = 0x20;
const OPENING = 0x5b;
const CLOSING = 0x5d;

/**
 * Why a line of JSON would take too long to parse; null: it would not. Checked in one pass over the bytes before parsing,
 * because megabytes of brackets would block JSON.parse for half a minute.
 */
export function whyTooComplex(line: Buffer): string | null {
  let depth = 0;
  let values = 0;
  for (let at = 0; at < line.length; at++) {
    const byte = line[at] ?? 0;
    if (byte === QUOTE) at = endOfString(line, at);
    else if (byte === COMMA) values++;
    else if ((byte & ~BRACE) === CLOSING) depth--;
    else if ((byte & ~BRACE) === OPENING) {
      values++;
      if (++depth > MAX_DEPTH) return "nested too deeply";
    }
    if (values > MAX_VALUES) return "too many values";
  }
  return null;
}

/** The index of the closing quote, or the end of the line. */
function endOfString(line: Buffer, begin: number): number {
  for (let at = begin + 1; ; at++) {
    at = line.indexOf(QUOTE, at);
    if (at < 0) return line.length;
    let backslashes = 0;
    while (line[at - 1 - backslashes] === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return at;
  }
}

/** Error codes of JSON-RPC 2.0. */
export const METHOD_NOT_FOUND = -32_601;
export const INVALID_PARAMS = -32_602;
const INTERNAL_ERROR = -32_603;
/** A code from the range that JSON-RPC leaves to implementations. */
export const TOO_MANY_REQUESTS = -32_000;

export type RpcId = string | number | null;

interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** The answer to a request. */
export type RpcOutcome = { readonly result: unknown } | { readonly error: RpcError };

export type RpcMessage =
  | { readonly type: "request"; readonly id: RpcId; readonly method: string; readonly params: unknown }
  | { readonly type: "notification"; readonly method: string; readonly params: unknown }
  | { readonly type: "answer"; readonly id: RpcId; readonly outcome: RpcOutcome };

/** Ids are stored until they are answered. Known agents use a few dozen characters. */
const MAX_ID_CHARS = 1_000;

/** A message, or why the line is not one. */
export function parseRpcMessage(line: Buffer): RpcMessage | string {
  if (!isUtf8(line)) return "not UTF-8";
  const why = whyTooComplex(line);
  if (why !== null) return why;
  let value: unknown;
  try {
    value = JSON.parse(line.toString());
  } catch {
    return "not JSON";
  }
  if (Array.isArray(value)) return "a batch";
  if (!isObject(value) || value["jsonrpc"] !== "2.0") return "not JSON-RPC 2.0";
  const { id, method, params } = value;
  if (id !== undefined && !isRpcId(id)) return "an invalid id";
  if (typeof method === "string")
    return id === undefined
      ? { type: "notification", method, params }
      : { type: "request", id, method, params };
  if (method !== undefined || id === undefined) return "neither request nor answer";
  if (isObject(value["error"])) return { type: "answer", id, outcome: { error: toRpcError(value["error"]) } };
  return "result" in value
    ? { type: "answer", id, outcome: { result: value["result"] } }
    : "neither request nor answer";
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** An imprecise number could not be repeated in the answer. */
function isRpcId(value: unknown): value is RpcId {
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  return value === null || (typeof value === "string" && value.length <= MAX_ID_CHARS);
}

/** A malformed error object still counts as an error. */
function toRpcError({ code, message, data }: Record<string, unknown>): RpcError {
  return {
    code: typeof code === "number" ? code : 0,
    message: typeof message === "string" ? message : "no reason given",
    data,
  };
}

/** An agent's error for people: its message, and the details of its data if these say more. */
export function errorText({ message, data }: RpcError): string {
  const details = isObject(data) ? (data["details"] ?? data["message"]) : data;
  const said = redactedExcerpt(message);
  return typeof details === "string" && !message.includes(details)
    ? `${said}: ${redactedExcerpt(details)}`
    : said;
}

/** One `session/update` as received. Unknown kinds are stored like the others, because the protocol grows. */
export interface SessionUpdate {
  /** The offset after its frame, stored together with its effects. */
  readonly end: number;
  /** Size of its frame. */
  readonly bytes: number;
  readonly sessionId: string;
  readonly update: Readonly<Record<string, unknown>> & { readonly sessionUpdate: string };
}

/** Null: not a valid update. */
export function parseSessionUpdate(
  params: unknown,
  { end, bytes }: { readonly end: number; readonly bytes: number },
): SessionUpdate | null {
  if (!isObject(params) || typeof params["sessionId"] !== "string") return null;
  const { sessionId, update } = params;
  if (!isObject(update) || typeof update["sessionUpdate"] !== "string") return null;
  return { end, bytes, sessionId, update: update as SessionUpdate["update"] };
}

/** "Resource not found" of ACP. */
export const RESOURCE_NOT_FOUND = -32_002;
/** The gateway refuses. (-32000 is "authentication required" in ACP.) */
export const REQUEST_REFUSED = -32_001;

/** An error that is answered to the agent. */
export class RpcFailure extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

export async function toRpcOutcome(work: () => Promise<unknown>): Promise<RpcOutcome> {
  try {
    return { result: await work() };
  } catch (error) {
    return toErrorOutcome(error);
  }
}

export function toErrorOutcome(error: unknown): RpcOutcome {
  const message = redactedExcerpt(errorMessage(error), MAX_MESSAGE_CHARS);
  if (error instanceof RpcFailure) return { error: { code: error.code, message } };
  return { error: { code: error instanceof HoldfastError ? REQUEST_REFUSED : INTERNAL_ERROR, message } };
}

/** Room for a path. */
const MAX_MESSAGE_CHARS = 1_000;
