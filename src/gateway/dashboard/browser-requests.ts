import type { IncomingMessage } from "node:http";
import { ForeignOrigin } from "../../errors.js";

/** The header in which the page sends its token. The page keeps it in the storage of its own origin, port included. */
export const TOKEN_HEADER = "holdfast-page-token";

/** The subprotocol that the page offers beside its token: browsers send no other headers with a WebSocket. */
const WEBSOCKET_PROTOCOL = "holdfast";
const WEBSOCKET_TOKEN = /^holdfast, ?token\.([\w-]{1,100})$/;

/** Browsers send a cookie to every port of a host, so the name tells the dashboards of several gateways apart. */
export function cookieName(port: number): string {
  return `holdfast_dashboard_${port}`;
}

export function loginCookie(port: number, value: string, maxAgeMs: number): string {
  return `${cookieName(port)}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${Math.floor(maxAgeMs / 1000)}`;
}

/** Empty: the request has no such cookie. */
export function cookieOf({ headers }: IncomingMessage, port: number): string {
  const wanted = `${cookieName(port)}=`;
  const found = (headers.cookie ?? "").split(/; */).find((each) => each.startsWith(wanted));
  return found?.slice(wanted.length) ?? "";
}

/** Empty: the request has no token. */
export function pageTokenOf({ headers }: IncomingMessage): string {
  const [, offered = ""] = WEBSOCKET_TOKEN.exec(headers["sec-websocket-protocol"] ?? "") ?? [];
  const sent = headers[TOKEN_HEADER];
  return typeof sent === "string" ? sent : offered;
}

/** Leaves the subprotocol without the token, which no other gateway may see. */
export function hidePageToken({ headers }: IncomingMessage): void {
  if (headers["sec-websocket-protocol"] !== undefined) headers["sec-websocket-protocol"] = WEBSOCKET_PROTOCOL;
}

/**
 * Accepts requests of the page itself: a browser names the origin in every request that may change something and in
 * every WebSocket, and whether another site or port made a read.
 */
export function assertFromPage({ method = "", headers }: IncomingMessage): void {
  const own = `http://${(headers.host ?? "").toLowerCase()}`;
  const { origin } = headers;
  const site = headers["sec-fetch-site"];
  if (origin === undefined ? !isRead(method) || headers.upgrade !== undefined : origin !== own)
    throw new ForeignOrigin("Origin", origin ?? "");
  if (site !== undefined && site !== "same-origin") throw new ForeignOrigin("Origin", `of a ${site} request`);
}

export function isRead(method: string): boolean {
  return method === "GET" || method === "HEAD";
}
