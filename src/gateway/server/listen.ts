import { chmod, rm } from "node:fs/promises";
import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http";
import { join } from "node:path";
import { defaults } from "../../defaults.js";
import { StateUnusable } from "../../errors.js";

export const gatewaySocket = (home: string): string => join(home, "gateway.sock");

export interface Listening extends AsyncDisposable {
  readonly server: Server;
}

/** On the state directory's own socket. Only for whoever holds the gateway's lock: a socket that is there is a dead one's. */
export async function listenLocally(
  home: string,
  requestMs: number,
  app: RequestListener,
): Promise<Listening> {
  const path = gatewaySocket(home);
  await rm(path, { force: true });
  const server = bounded(app, requestMs);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) =>
      reject(new StateUnusable(path, `the gateway cannot listen on ${path}: ${cause.message}`, { cause })),
    );
    // As many may knock at once as are let in: on a local socket, whoever finds the queue full is turned away.
    server.listen({ path, backlog: defaults.connections }, resolve);
  });
  // The directory is private too; this is for the day somebody opens it up.
  await chmod(path, 0o600);
  return { server, [Symbol.asyncDispose]: () => close(server) };
}

/** Whoever is slow or silent holds up only himself; whoever comes when there are too many is turned away. */
export function bounded(app: RequestListener, requestMs: number): Server {
  return crowded(createServer(bounds(requestMs), app));
}

export function bounds(requestMs: number): ServerOptions {
  return {
    headersTimeout: requestMs,
    requestTimeout: requestMs,
    keepAliveTimeout: requestMs,
    maxHeaderSize: 16 * 1024,
    connectionsCheckingInterval: Math.min(5_000, requestMs / 4),
  };
}

export function crowded<Kind extends Server>(server: Kind): Kind {
  server.maxConnections = defaults.connections;
  server.maxRequestsPerSocket = 0;
  return server;
}

export async function close(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}
