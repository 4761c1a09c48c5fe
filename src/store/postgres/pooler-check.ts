import type { Client, ClientBase } from "pg";
import { sessionPoolingRequired, poolFullError, translatePostgresError } from "./errors.js";
import type { PostgresAddress } from "../../config/postgres-url.js";

/** Other clients of a busy pooler can hide what one round would show. */
const ROUNDS = 3;

/** Whether a pooler answers in the server's place: it reports another process id than the server's, for cancel requests. */
export function isPooled(client: ClientBase, backendPid: number): boolean {
  return (client as ClientBase & { readonly processID: number | null }).processID !== backendPid;
}

/**
 * Rejects unless the pooler keeps one server connection for each client connection. With transaction pooling, the
 * transaction of a second client takes the server connection that the first has just used (the last one released is
 * the next one assigned), or the first gets another at its next statement (round-robin pools).
 */
export async function requireSessionPooling(
  first: ClientBase,
  second: Client,
  address: PostgresAddress,
): Promise<void> {
  second.on("error", () => {});
  try {
    await askSecondClient(second.connect(), first, address);
    for (let round = 0; round < ROUNDS; round += 1) {
      const pid = await backendPidOf(first);
      if ((await backendPidOf(first)) !== pid) throw sessionPoolingRequired(address);
      await askSecondClient(second.query("begin"), first, address);
      if ((await askSecondClient(backendPidOf(second), first, address)) === pid)
        throw sessionPoolingRequired(address);
      if ((await backendPidOf(first)) !== pid) throw sessionPoolingRequired(address);
      await second.query("rollback");
    }
  } finally {
    second.end().catch(() => {});
  }
}

async function backendPidOf(client: ClientBase): Promise<number> {
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]?.pid ?? 0;
}

/** If the second client is refused while the first is answered, the pooler has refused it. */
async function askSecondClient<Answer>(
  answer: Promise<Answer>,
  first: ClientBase,
  address: PostgresAddress,
): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof Error && error.message.includes("statement pooling"))
      throw sessionPoolingRequired(address);
    const translated = translatePostgresError(error, address, "connecting");
    await backendPidOf(first);
    // The pooler sent no error: the client waits for a server connection.
    throw "severity" in Object(error) ? translated : poolFullError(address, error);
  }
}
