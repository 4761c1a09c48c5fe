import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deferred } from "../../../src/async/deferred.js";
import { asNonRootUser, whyNoPostgres, type PostgresServer } from "./postgres-server.js";

const pgBouncerPath = "/usr/sbin/pgbouncer";

/** Null: PgBouncer and a server for it are installed. */
export const whyNoPooler = whyNoPostgres ?? (existsSync(pgBouncerPath) ? null : `no ${pgBouncerPath}`);

export interface PgBouncer extends AsyncDisposable {
  /** Where its socket is, as `host` of a URL. */
  readonly directory: string;
  /** The same database, through the pooler. */
  urlOf(serverUrl: string): string;
}

/** A real PgBouncer in front of a test server, listening on a Unix socket of its own. */
export async function startPgBouncer(
  { directory: upstream }: Pick<PostgresServer, "directory">,
  settings: Readonly<Record<string, string | number>>,
  users: readonly string[] = ["postgres"],
): Promise<PgBouncer> {
  const directory = await mkdtemp(join(tmpdir(), "hf-pb-"));
  const [prefix, identity] = asNonRootUser();
  const given = {
    listen_port: 5432,
    unix_socket_dir: directory,
    auth_type: "trust",
    auth_file: join(directory, "users.txt"),
    default_pool_size: 100,
    max_client_conn: 500,
    // A server that was down is tried again at once.
    server_login_retry: 1,
    ...settings,
  };
  const lines = Object.entries(given).map(([name, value]) => `${name} = ${value}`);
  const config = join(directory, "pgbouncer.ini");
  await writeFile(config, `[databases]\n* = host=${upstream} port=5432\n[pgbouncer]\n${lines.join("\n")}\n`);
  await writeFile(given.auth_file, users.map((user) => `"${user}" ""\n`).join(""));
  if (identity.uid !== undefined) await chown(directory, identity.uid, identity.gid ?? identity.uid);
  const words: readonly string[] = [...prefix, pgBouncerPath, config];
  const child = spawn(words[0] ?? "", words.slice(1), {
    ...identity,
    cwd: directory,
    env: { PATH: process.env["PATH"] },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(child, "close");
  const ready = deferred<void>();
  let log = "";
  child.stderr.on("data", (text: Buffer) => {
    log += text.toString();
    if (log.includes("process up")) ready.resolve();
  });
  void ended.then(() => ready.reject(new Error(`PgBouncer did not start:\n${log}`)));
  await ready.promise;
  return {
    directory,
    urlOf: (serverUrl) => serverUrl.replace(upstream, directory),
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
