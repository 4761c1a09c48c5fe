import { isUtf8 } from "node:buffer";
import { whyTooComplex } from "./json-guard.js";

/** Error codes of JSON-RPC 2.0. */
export const METHOD_NOT_FOUND = -32_601;
export const INVALID_PARAMS = -32_602;
export const INTERNAL_ERROR = -32_603;

export type RpcId = string | number | null;

export interface RpcError {
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
