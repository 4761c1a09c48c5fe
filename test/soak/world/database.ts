import { type CuttableProxy, startCuttableProxy } from "../../support/store/postgres-proxy.js";
import { type PostgresServer, startPostgresServer } from "../../support/store/postgres-server.js";

/** A server of its own, behind a proxy. */
export interface WorldDatabase {
  readonly server: PostgresServer;
  readonly proxy: CuttableProxy;
  /** Through the proxy. */
  readonly url: string;
}

export async function openDatabase(): Promise<WorldDatabase> {
  const server = await startPostgresServer();
  const proxy = await startCuttableProxy(server.directory);
  const { name } = await server.createDatabase();
  return { server, proxy, url: `postgres://postgres@localhost/${name}?host=${proxy.directory}` };
}
