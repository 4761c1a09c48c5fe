import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http";

export interface Listener extends AsyncDisposable {
  readonly server: Server;
}

/** An HTTP server with timeouts. ConnectionLimiter limits the number of connections. */
export function createBoundedServer(router: RequestListener, requestMs: number): Server {
  const server = createServer(serverLimits(requestMs), router);
  server.maxRequestsPerSocket = 0;
  return server;
}

export function serverLimits(requestMs: number): ServerOptions {
  return {
    headersTimeout: requestMs,
    requestTimeout: requestMs,
    keepAliveTimeout: requestMs,
    maxHeaderSize: 16 * 1024,
    connectionsCheckingInterval: Math.min(5_000, requestMs / 4),
  };
}

export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}
