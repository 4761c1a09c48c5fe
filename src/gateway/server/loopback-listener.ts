import type { IncomingMessage, RequestListener } from "node:http";
import type { Server as NetServer } from "node:net";
import type { LoopbackAddress } from "../../config/network-addresses.js";
import { BadInput, ForeignOrigin, StateUnusable } from "../../errors.js";
import { type Listener, createBoundedServer, closeServer } from "./http-server.js";

export interface LoopbackListener extends Listener {
  /** As a client writes it, with the actual port. */
  readonly address: string;
  readonly allowedHosts: AllowedHosts;
}

/** Accepted `host:port` values of the Host header. Checked before anything else in a request. */
export type AllowedHosts = ReadonlySet<string>;

/** Listens on a loopback port, for browsers. */
export async function listenOnLoopback(
  { host, port }: LoopbackAddress,
  requestMs: number,
  serve: (allowedHosts: AllowedHosts) => RequestListener,
): Promise<LoopbackListener> {
  const allowedHosts = new Set<string>();
  const server = createBoundedServer(serve(allowedHosts), requestMs);
  const actual = await listenOnPort(server, { host, port });
  const written = host === "::1" ? "[::1]" : host;
  for (const name of [written, "localhost", "127.0.0.1", "[::1]"]) allowedHosts.add(`${name}:${actual}`);
  return {
    server,
    allowedHosts,
    address: `${written}:${actual}`,
    [Symbol.asyncDispose]: () => closeServer(server),
  };
}

/** Resolves with the actual port. */
export async function listenOnPort(
  server: NetServer,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) =>
      reject(new StateUnusable(host, `cannot listen on ${host}:${port}: ${cause.message}`, { cause })),
    );
    server.listen({ host, port, exclusive: true }, resolve);
  });
  const bound = server.address();
  return typeof bound === "object" && bound !== null ? bound.port : port;
}

/**
 * Programs differ in which of two hosts in a request they use, so a proxy in between may have checked the other one.
 * Node keeps the first of several Host headers.
 */
function assertSingleHost({ rawHeaders, url = "" }: IncomingMessage): void {
  const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host");
  if (hosts.length > 1)
    throw new BadInput("host", "the request has more than one Host header; nothing was done");
  if (/^[a-z][\w+.-]*:\/\//i.test(url))
    throw new BadInput("url", "the request target must be a path, not an absolute URL; nothing was done");
}

/**
 * Protects against DNS rebinding and cross-origin requests of web pages. Null: a local socket, which no page can reach.
 */
export function assertAllowedHost(allowedHosts: AllowedHosts | null, request: IncomingMessage): void {
  assertSingleHost(request);
  if (allowedHosts === null) return;
  const { host = "", origin } = request.headers;
  if (!allowedHosts.has(host.toLowerCase())) throw new ForeignOrigin("Host", host);
  if (origin === undefined) return;
  if (!origin.startsWith("http://") || !allowedHosts.has(origin.slice("http://".length).toLowerCase()))
    throw new ForeignOrigin("Origin", origin);
}
