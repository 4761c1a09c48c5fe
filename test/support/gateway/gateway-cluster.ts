import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { WebSocket } from "ws";
import { type AttachServerMessage, decodeFrame } from "../../../src/api/attach-frames.js";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { parseConfig } from "../../../src/config/schema.js";
import { type Gateway, openGateway } from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { cliPath } from "../cli/cli-fixture.js";
import { startPgBouncer } from "../store/postgres-pooler.js";
import { type ReplicatedServer, startReplicatedServer } from "../store/postgres-replication.js";
import { type PostgresDatabase, type PostgresServer, startPostgresServer } from "../store/postgres-server.js";
import { removeStateDirectory } from "../temporary-directory.js";
import { waitFor } from "../wait-for.js";

/** A gateway in this process, with a state directory of its own. */
export interface ClusterGateway {
  readonly home: string;
  readonly gateway: Gateway;
  readonly token: string;
  readonly client: GatewayClient;
  readonly socketPath: string;
}

export interface ClusterProcess extends Pick<ClusterGateway, "home" | "token" | "client" | "socketPath"> {
  kill(signal?: NodeJS.Signals): Promise<void>;
}

/** Listens for the others, wherever there is room. */
export const PEER_LISTEN_CONFIG = '[peers]\nlisten = "127.0.0.1:0"\n';

/** Gateways of several state directories on one real database, and a bystander that must survive them. */
export class GatewayCluster implements AsyncDisposable {
  readonly server: PostgresServer;
  readonly database: PostgresDatabase;
  readonly gateways: ClusterGateway[] = [];
  readonly #bystander: ChildProcess = spawn("sleep", ["3600"], { stdio: "ignore" });
  readonly #homes: string[] = [];
  readonly #children = new Set<ChildProcess>();
  readonly #beside: readonly AsyncDisposable[];

  /**
   * `beside`: a pooler or a stand-by, closed with the cluster. The address is in the environment of all tests of a file;
   * vitest undoes its own stubs before each test.
   */
  constructor(
    server: PostgresServer,
    database: PostgresDatabase,
    beside: readonly AsyncDisposable[] = [],
    url: string = database.url,
  ) {
    this.server = server;
    this.database = database;
    this.#beside = beside;
    process.env["HOLDFAST_DATABASE_URL"] = url;
  }

  static async open(): Promise<GatewayCluster> {
    const server = await startPostgresServer();
    return new GatewayCluster(server, await server.createDatabase());
  }

  /** The same, through PgBouncer. */
  static async throughPooler(): Promise<GatewayCluster> {
    const server = await startPostgresServer();
    const pooler = await startPgBouncer(server, { pool_mode: "session" });
    const database = await server.createDatabase();
    return new GatewayCluster(server, database, [pooler], pooler.urlOf(database.url));
  }

  /** The same, with the addresses of a primary and its stand-by. */
  static async replicated(): Promise<{
    readonly fleet: GatewayCluster;
    readonly replicated: ReplicatedServer;
  }> {
    const replicated = await startReplicatedServer();
    const database = await replicated.createDatabase();
    return { fleet: new GatewayCluster(replicated.primary, database, [replicated.standBy]), replicated };
  }

  async newHome(): Promise<string> {
    const home = await mkdtemp(join(tmpdir(), "hf-"));
    this.#homes.push(home);
    return home;
  }

  /** One more, or the next of a state directory. */
  async startGateway(config = PEER_LISTEN_CONFIG, home?: string): Promise<ClusterGateway> {
    const its = home ?? (await this.newHome());
    const gateway = await openGateway({ home: its, onEvent: () => {}, config: parseConfig(config, "") });
    await gateway.ready;
    const token = (await readOperatorToken(its)) ?? "";
    const socketPath = gatewaySocketPath(its);
    const member = {
      home: its,
      gateway,
      token,
      client: createClient({ socketPath, token }),
      socketPath,
    };
    this.gateways.push(member);
    return member;
  }

  /** One in a process of its own, which can be killed; by `around` in surroundings of its own; of another build. */
  async spawnGateway(
    home?: string,
    around: readonly string[] = [],
    program = cliPath,
  ): Promise<ClusterProcess> {
    const its = home ?? (await this.newHome());
    const words = [...around, process.execPath, program, "gateway", "run", "--quiet"];
    const child = spawn(words[0] ?? "", words.slice(1), {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, HOLDFAST_HOME: its, HOLDFAST_PEERS_LISTEN: "127.0.0.1:0" },
    });
    const ended = once(child, "exit");
    this.#children.add(child);
    void ended.then(() => this.#children.delete(child));
    const socketPath = gatewaySocketPath(its);
    const ready = async (): Promise<string | null> => {
      const reached = await reachGateway(its).catch(() => null);
      return reached?.status.ready === true && reached.status.pid === child.pid
        ? readOperatorToken(its)
        : null;
    };
    const token = await waitFor("the gateway is ready", ready, 30_000);
    return {
      home: its,
      token,
      client: createClient({ socketPath, token }),
      socketPath,
      kill: async (signal = "SIGKILL") => {
        child.kill(signal);
        await ended;
      },
    };
  }

  async stopGateway(member: ClusterGateway, runs: "leave" | "terminate" = "leave"): Promise<void> {
    this.gateways.splice(this.gateways.indexOf(member), 1);
    await member.gateway.stop({ runs, waitMs: 0 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const member of [...this.gateways]) await this.stopGateway(member, "terminate");
    for (const child of this.#children) {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
    delete process.env["HOLDFAST_DATABASE_URL"];
    for (const each of this.#beside) await each[Symbol.asyncDispose]();
    await this.server[Symbol.asyncDispose]();
    const survived = this.#bystander.exitCode === null && this.#bystander.signalCode === null;
    this.#bystander.kill("SIGKILL");
    for (const home of this.#homes) await removeStateDirectory(home);
    expect(survived, "the bystander").toBe(true);
  }
}

/** A run in the background. */
export async function startRun(
  { client }: Pick<ClusterGateway, "client">,
  script: string,
  more: object = {},
): Promise<string> {
  const body = { argv: ["/bin/sh", "-c", script], background: true, graceMs: 300, ...more };
  return (await client.exec({ body })).run.runId;
}

/** A viewer that is attached to a run through a gateway. */
export class RunViewer {
  readonly socket: WebSocket;
  readonly said: AttachServerMessage[] = [];
  readonly closed: Promise<number>;
  text = "";
  nextOffset = 0;

  constructor({ socketPath, token }: Pick<ClusterGateway, "socketPath" | "token">, runId: string, from = 0) {
    const path = `/v1/runs/${runId}/attach?stdout=${from}`;
    this.socket = new WebSocket(`ws+unix://${socketPath}:${path}`, {
      headers: { authorization: `Bearer ${token}` },
    });
    this.closed = new Promise((resolve) => this.socket.once("close", (code) => resolve(code)));
    this.socket.on("error", () => {});
    this.socket.on("message", (data: Buffer, binary: boolean) => {
      if (!binary) {
        this.said.push(JSON.parse(data.toString()) as AttachServerMessage);
        return;
      }
      const { offset, bytes } = decodeFrame(data);
      this.text += bytes.toString("latin1");
      this.nextOffset = offset + bytes.length;
    });
  }
}

export const OTHER_HOST = "far-host";

/** Words before a command that have it run on another host, as far as it can tell: with a name and an id of its own. */
export async function onOtherHost(home: string): Promise<readonly string[]> {
  const id = join(home, "machine-id");
  await writeFile(id, `${"f".repeat(32)}\n`);
  const script = `hostname ${OTHER_HOST}; if [ -e /etc/machine-id ]; then mount --bind "${id}" /etc/machine-id; fi; exec "$@"`;
  return ["unshare", "--mount", "--uts", "sh", "-c", script, "sh"];
}
