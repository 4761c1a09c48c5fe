import type { RequestOf, ResponseOf, Verb } from "../../../src/api/contract.js";
import { endpoints } from "../../../src/api/endpoints.js";
import { storedLogin, type StoredLogin } from "./stored-login.js";

/** An error response of the gateway. */
export class ApiError extends Error {
  readonly code: string;
  readonly status: number;
  constructor(status: number, code: string, message: string) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** The gateway did not answer: it stopped, or the network (an SSH tunnel) is gone. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super("the gateway does not answer", { cause });
  }
}

type Input<V extends Verb> = Partial<RequestOf<V>> & { readonly signal?: AbortSignal };

/** Sends a request of the gateway's API. Rejects with ApiError or Unreachable. */
export async function request<V extends Verb>(verb: V, input: Input<V> = {}): Promise<ResponseOf<V>> {
  const { params = {}, query = {}, body = {}, signal } = input;
  const { method, path } = endpoints[verb];
  return (await send(method, pathOf(path, params, query), body, signal)) as ResponseOf<V>;
}

/** The path of a verb with its parameters, for streams and WebSockets. */
export function pathOf(path: string, params: object, query: object = {}): string {
  const values = params as Readonly<Record<string, unknown>>;
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== false)
      search.set(name, value === true ? "1" : String(value));
  return search.size === 0 ? filled : `${filled}?${search.toString()}`;
}

async function send(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<unknown> {
  const response = await fetchFromGateway(path, {
    method,
    ...(method === "POST" ? { body: JSON.stringify(body) } : {}),
    ...(signal === undefined ? {} : { signal }),
  });
  return response.json();
}

/** A successful response. Rejects with ApiError or Unreachable. */
export async function fetchFromGateway(path: string, init: RequestInit = {}): Promise<Response> {
  const token = storedLogin()?.token ?? "";
  const headers = { "content-type": "application/json", "holdfast-page-token": token };
  const response = await fetch(path, { ...init, headers }).catch((error: unknown) => {
    if (init.signal?.aborted === true) throw error;
    throw new Unreachable(error);
  });
  if (response.ok) return response;
  const { error } = (await response.json().catch(() => ({ error: {} }))) as {
    readonly error: { readonly code?: string; readonly message?: string };
  };
  throw new ApiError(response.status, error.code ?? "UNKNOWN", error.message ?? `status ${response.status}`);
}

/** Opens a WebSocket of the gateway. Browsers send no headers with it, so the token is a subprotocol. */
export function openSocket(path: string): WebSocket {
  const url = new URL(path, location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(url, ["holdfast", `token.${storedLogin()?.token ?? ""}`]);
}

/** Exchanges the secret of a one-time link. */
export async function exchangeLink(link: string): Promise<StoredLogin> {
  return (await send("POST", "/dashboard/login", { link })) as StoredLogin;
}

export async function logOut(): Promise<void> {
  await send("POST", "/dashboard/logout", {});
}
