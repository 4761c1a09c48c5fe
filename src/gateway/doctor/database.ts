import { databaseUrl } from "../../config/database-url.js";
import { errorMessage } from "../../home/errno.js";
import type { ServerInfo } from "../../store/postgres/server-properties.js";
import { bad, ok, warn, type Check } from "./check-result.js";

/** Clock differences below this do not mislead users who compare times of several hosts. */
const CLOCK_TOLERANCE_MS = 2_000;

/**
 * A start waits for three answers of the database, an end for two; a gateway that cannot renew in time loses its
 * leases.
 */
const SLOW_ANSWER_MS = 100;

/** Checks the PostgreSQL server, if there is one. No result contains its password. */
export async function checkDatabase(): Promise<readonly Check[]> {
  const url = await databaseUrl().catch(() => null);
  if (url === null) return [];
  const { CONNECTIONS_PER_GATEWAY: CONNECTIONS_OF_A_GATEWAY, readServerInfo: surveyServer } =
    await import("../../store/postgres/server-properties.js");
  try {
    const facts = await surveyServer(url);
    return [
      checkServer(facts),
      checkDurability(facts),
      checkReplication(facts),
      checkConnections(facts, CONNECTIONS_OF_A_GATEWAY),
    ];
  } catch (error) {
    return [bad("database", errorMessage(error))];
  }
}

export function checkServer(facts: ServerInfo): Check {
  const { label, version, standby, encoding, writable, latencyMs, clockAheadMs } = facts;
  const name = "database";
  const ahead = Math.round(clockAheadMs);
  const apart =
    Math.abs(ahead) <= Math.max(1, latencyMs)
      ? "the same time"
      : `a clock ${Math.abs(ahead)} ms ${ahead > 0 ? "ahead" : "behind"}`;
  const detail = `${label}: PostgreSQL ${version}, answers in ${latencyMs.toFixed(1)} ms, ${apart}`;
  if (standby)
    return bad(
      name,
      `${detail}; it is a read-only stand-by: nothing can be recorded`,
      "use the address of the primary",
    );
  if (encoding !== "UTF8")
    return bad(
      name,
      `${detail}; its encoding ${encoding} cannot store every text: no gateway starts on it`,
      "create a database with encoding UTF8",
    );
  if (!writable)
    return bad(
      name,
      `${detail}; this user may not write there, or may not create the tables: nothing can be recorded`,
      "grant it the right to create a schema in the database, or use the user that created the tables",
    );
  if (Math.abs(ahead) > CLOCK_TOLERANCE_MS)
    return warn(
      name,
      detail,
      "set the clocks of both (NTP): displayed times are wrong; leases are not affected",
    );
  if (latencyMs > SLOW_ANSWER_MS)
    return warn(
      name,
      `${detail}: every start and end of a run waits for it several times`,
      "a nearer server",
    );
  return ok(name, detail);
}

export function checkDurability({ fsync, fullPageWrites, synchronousCommit }: ServerInfo): Check {
  const name = "database disk";
  if (!fsync)
    return warn(
      name,
      "fsync is off: a power cut or a crash of the server's system can damage the whole database",
      "fsync = on in postgresql.conf, then reload it",
    );
  if (!fullPageWrites)
    return warn(
      name,
      "full_page_writes is off: a power cut can leave half-written pages",
      "full_page_writes = on in postgresql.conf, unless its file system never tears pages",
    );
  return ok(
    name,
    `commits are on the disk before they are answered (synchronous_commit ${synchronousCommit})`,
  );
}

export function checkReplication({ synchronousStandbys, synchronousCommit }: ServerInfo): Check {
  const name = "replication";
  const forgets = "a stand-by that takes over may not have the newest records";
  if (synchronousStandbys === "")
    return warn(
      name,
      `synchronous replication is off: ${forgets}`,
      "with a stand-by: synchronous_standby_names in postgresql.conf (docs/guides/many-hosts.md); without one, keep backups",
    );
  if (synchronousCommit === "local")
    return warn(
      name,
      `synchronous_commit is local, so commits do not wait for ${synchronousStandbys}: ${forgets}`,
      "synchronous_commit = on",
    );
  return ok(name, `commits wait for ${synchronousStandbys} (synchronous_commit ${synchronousCommit})`);
}

export function checkConnections({ connections: { most, used, ours } }: ServerInfo, each: number): Check {
  const name = "connections";
  if (used === null)
    return ok(
      name,
      `the maximum is ${most}; the number in use is not known, because this user cannot see the connections of others (grant it pg_read_all_stats); a gateway uses up to ${each}`,
    );
  const more = Math.max(0, Math.floor((most - used) / each));
  const detail = `${used} of ${most} are used, ${ours} by Holdfast; a gateway uses up to ${each}: room for ${more} more`;
  return more > 0
    ? ok(name, detail)
    : warn(name, detail, "a higher max_connections, or PgBouncer with pool_mode = session in front");
}
