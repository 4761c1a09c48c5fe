import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { appendFile, chown, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { afterAll, beforeAll } from "vitest";
import { StateUnusable } from "../../../src/errors.js";
import { openPostgresStore, type PostgresStoreOptions } from "../../../src/store/postgres/open.js";
import type { Store } from "../../../src/store/store.js";
import { deferred } from "../../../src/async/deferred.js";
import { readProcess, signalProcess } from "../live-processes.js";

export interface PostgresServer extends AsyncDisposable {
  /** Where its socket is, as `host` of a URL. */
  readonly directory: string;
  /** An empty database of its own. */
  createDatabase(template?: string): Promise<PostgresDatabase>;
  /** On a connection of its own. */
  query(database: string, text: string): Promise<Record<string, unknown>[]>;
  /** Its log since it was started. */
  log(): string;
  /** Sends SIGKILL to all of its processes. */
  kill(): Promise<void>;
  /** After `kill`; does nothing while it runs. As a stand-by it can be read only. */
  start(as?: { readonly standBy: boolean }): Promise<void>;
  /** The server accepts connections and does not answer. */
  pause(): void;
  resume(): void;
  /** Makes a stand-by accept writes. */
  promote(): Promise<void>;
  /** Kills the server, copies its files, and starts it again. */
  backUp(): Promise<void>;
  /** After `kill`: restores the files of `backUp`, once. */
  goBack(): Promise<void>;
}

interface PostgresServerOptions {
  /** Stand-bys can follow it. */
  readonly replicated?: boolean;
  /** Starts as a stand-by of this server, which is `replicated`. */
  readonly standByOf?: Pick<PostgresServer, "directory">;
}

export interface PostgresDatabase extends AsyncDisposable {
  readonly name: string;
  readonly url: string;
  open(options?: Partial<PostgresStoreOptions>): Promise<Store>;
  /** On a connection of its own. */
  query(text: string): Promise<Record<string, unknown>[]>;
}

const installRoot = "/usr/lib/postgresql";
const versions = existsSync(installRoot)
  ? readdirSync(installRoot).filter((name) => existsSync(binaryPath(name, "initdb")))
  : [];
const version = versions.toSorted((one, other) => Number(one) - Number(other)).at(-1);

/** Null: PostgreSQL is installed. */
export const whyNoPostgres = version === undefined ? `no PostgreSQL under ${installRoot}` : null;

function binaryPath(of: string, name: string): string {
  return join(installRoot, of, "bin", name);
}

/** An address that the server listens on. */
interface PostgresListenAddress {
  readonly address: string;
  /** Words that start a command in the network of that address. */
  readonly within: readonly string[];
}

/** A server for the tests of a suite: started before them and removed after them. */
export function postgresForSuite(): PostgresServer {
  const server = {} as PostgresServer;
  beforeAll(async () => {
    Object.assign(server, await startPostgresServer());
  });
  afterAll(() => server[Symbol.asyncDispose]());
  return server;
}

/** Starts a server with a socket of its own, and with a password on `listening`. Removed when disposed. */
export async function startPostgresServer(
  listening: PostgresListenAddress | null = null,
  { replicated = false, standByOf }: PostgresServerOptions = {},
): Promise<PostgresServer> {
  const directory = await mkdtemp(join(tmpdir(), "hf-pg-"));
  const [prefix, identity] = asNonRootUser();
  if (identity.uid !== undefined) await chown(directory, identity.uid, identity.gid ?? identity.uid);
  const data = join(directory, "data");
  const tool = (name: string, args: readonly string[]): readonly [string, string[]] => {
    const [command = "", ...rest] = [...prefix, binaryPath(version ?? "", name), ...args];
    return [command, rest];
  };
  const options = { ...identity, cwd: directory, env: { PATH: process.env["PATH"], LC_ALL: "C" } };
  if (standByOf === undefined) {
    const template = join(process.env["SUITE_TMPDIR"] ?? directory, "pg");
    const copy = async (): Promise<unknown> => promisify(execFile)("cp", ["-a", template, data]);
    await copy().catch(async () => {
      // The first server of a suite; another one, also of this worker, may make the template at the same time.
      await promisify(execFile)(
        ...tool("initdb", [
          ...["-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"],
          ...["--auth-local=trust", "--auth-host=scram-sha-256"],
        ]),
        options,
      );
      const own = `${template}-${basename(directory)}`;
      await promisify(execFile)("cp", ["-a", data, own]);
      await rename(own, template).catch(() => rm(own, { recursive: true }));
    });
  } else
    await promisify(execFile)(
      ...tool("pg_basebackup", [
        ...["-D", data, "-U", "postgres", "-h", standByOf.directory, "--write-recovery-conf"],
        ...["--wal-method=stream", "--checkpoint=fast", "--no-sync"],
      ]),
      options,
    );
  if (listening !== null) await appendFile(join(data, "pg_hba.conf"), "host all all all scram-sha-256\n");
  // A killed server loses nothing that the kernel has, so nothing needs to reach the disk.
  const given = {
    fsync: "off",
    full_page_writes: "off",
    wal_level: "replica",
    max_wal_senders: replicated || standByOf !== undefined ? "5" : "0",
    autovacuum: "off",
    listen_addresses: listening?.address ?? "",
    unix_socket_directories: directory,
  };
  const flags = Object.entries(given).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  let server: ChildProcess;
  let ended: Promise<unknown>;
  let isRunning = false;

  const query = async (url: string, text: string): Promise<Record<string, unknown>[]> => {
    const client = new Client(url);
    client.on("error", () => {});
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text)).rows;
    } finally {
      await client.end();
    }
  };
  const urlOf = (name: string): string => `postgres://postgres@localhost/${name}?host=${directory}`;
  let log = "";
  const start = async ({ standBy } = { standBy: false }): Promise<void> => {
    if (isRunning) return;
    log = "";
    const signal = join(data, "standby.signal");
    if (standBy) await writeFile(signal, "", { mode: 0o644 });
    else await rm(signal, { force: true });
    server = spawn(...commandInNetwork(listening, tool("postgres", ["-D", data, ...flags]), identity), {
      ...options,
      // Only who is still root can enter a network.
      ...(listening === null ? {} : { uid: 0, gid: 0 }),
      stdio: ["ignore", "ignore", "pipe"],
    });
    isRunning = true;
    ended = once(server, "close").finally(() => (isRunning = false));
    const ready = deferred<void>();
    server.stderr?.on("data", (text: Buffer) => {
      log += text.toString();
      if (/ready to accept (read-only )?connections/.test(log)) ready.resolve();
    });
    void ended.then(() => ready.reject(new Error(`PostgreSQL did not start:\n${log}`)));
    await ready.promise;
  };
  /** It and its processes, one for each connection. These first: a stopped server starts no other. */
  const signalAll = (signal: "SIGSTOP" | "SIGCONT" | "SIGKILL"): void => {
    if (signal !== "SIGCONT") server.kill("SIGSTOP");
    const children = readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, "utf8");
    for (const pid of children.split(" ").filter(Boolean)) {
      // A process of a closed connection may have ended since.
      const child = readProcess(Number(pid));
      if (child !== null) signalProcess(child, signal);
    }
    server.kill(signal);
  };
  const kill = async (): Promise<void> => {
    // All at once: without its server, a process of a connection answers the requests that it gets in time.
    if (isRunning) signalAll("SIGKILL");
    await ended;
  };
  await start({ standBy: standByOf !== undefined });
  let count = 0;
  return {
    directory,
    query: (name, text) => query(urlOf(name), text),
    log: () => log,
    start,
    kill,
    pause: () => signalAll("SIGSTOP"),
    resume: () => signalAll("SIGCONT"),
    async promote() {
      const [answer] = await query(urlOf("postgres"), "select pg_promote() as promoted");
      if (answer?.["promoted"] !== true) throw new Error("the stand-by was not promoted");
    },
    async backUp() {
      await kill();
      await promisify(execFile)("cp", ["-a", data, `${data}.backup`]);
      await start();
    },
    async goBack() {
      await rm(data, { recursive: true });
      await rename(`${data}.backup`, data);
    },
    async createDatabase(template = "template1") {
      count += 1;
      const name = `db${count}`;
      await query(urlOf("postgres"), `create database ${name} template ${template}`);
      const url = urlOf(name);
      return {
        name,
        url,
        // How long a busy machine may take is not the subject.
        open: (more = {}) => openPostgresStore({ url, name: "test", busyMs: 20_000, ...more }),
        query: (text) => query(url, text),
        // It goes with its server.
        [Symbol.asyncDispose]: async () => {},
      };
    },
    async [Symbol.asyncDispose]() {
      // Fast shutdown: open connections are no reason to stay. One that was killed has ended already.
      server.kill("SIGINT");
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** The same command line in the network, where it is somewhere else. */
function commandInNetwork(
  listening: PostgresListenAddress | null,
  [tool, args]: readonly [string, string[]],
  { uid = 0, gid = uid }: { readonly uid?: number; readonly gid?: number },
): readonly [string, string[]] {
  if (listening === null) return [tool, args];
  const become = ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups"];
  const [command = "", ...rest] = [...listening.within, ...become, tool, ...args];
  return [command, rest];
}

/** PostgreSQL refuses to be root, and to be what looks like root in a user namespace. */
export function asNonRootUser(): readonly [string[], { readonly uid?: number; readonly gid?: number }] {
  if (process.getuid?.() !== 0) return [[], {}];
  if (process.env["HOLDFAST_TEST_NAMESPACE"] === "user")
    return [["unshare", "--user", "--map-user=1000", "--map-group=1000"], {}];
  const accounts = readFileSync("/etc/passwd", "utf8").split("\n");
  const account = ["postgres", "nobody"]
    .map((name) => accounts.find((line) => line.startsWith(`${name}:`)))
    .find((line) => line !== undefined);
  const [, , uid, gid] = (account ?? "nobody:x:65534:65534").split(":");
  return [[], { uid: Number(uid), gid: Number(gid) }];
}

/** The refusal that a supervisor takes for "cannot write now". */
export async function storeUnusable(promise: Promise<unknown>): Promise<StateUnusable> {
  const error: unknown = await promise.then(
    () => new Error("it was not refused"),
    (reason: unknown) => reason,
  );
  if (error instanceof StateUnusable) return error;
  throw error;
}
