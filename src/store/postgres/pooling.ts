import type { Client, ClientBase } from "pg";
import { notSessionPooling, poolIsFull, translatePostgresError } from "./errors.js";
import type { PostgresTarget } from "./target.js";

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
  target: PostgresTarget,
): Promise<void> {
  second.on("error", () => {});
  try {
    await ask(second.connect(), first, target);
    for (let round = 0; round < ROUNDS; round += 1) {
      const pid = await pidOf(first);
      if ((await pidOf(first)) !== pid) throw notSessionPooling(target);
      await ask(second.query("begin"), first, target);
      if ((await ask(pidOf(second), first, target)) === pid) throw notSessionPooling(target);
      if ((await pidOf(first)) !== pid) throw notSessionPooling(target);
      await second.query("rollback");
    }
  } finally {
    second.end().catch(() => {});
  }
}

async function pidOf(client: ClientBase): Promise<number> {
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]?.pid ?? 0;
}

/** If the second client is refused while the first is answered, the pooler has refused it. */
async function ask<Answer>(
  answer: Promise<Answer>,
  first: ClientBase,
  target: PostgresTarget,
): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof Error && error.message.includes("statement pooling"))
      throw notSessionPooling(target);
    const translated = translatePostgresError(error, target, "connecting");
    await pidOf(first);
    // The pooler sent no error: the client waits for a server connection.
    throw "severity" in Object(error) ? translated : poolIsFull(target, error);
  }
}
