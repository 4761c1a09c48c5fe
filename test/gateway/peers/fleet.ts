import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { expect, vi } from "vitest";
import { WebSocket } from "ws";
import { unframe, type ToViewer } from "../../../src/gateway/attach-frames.js";
import { createClient, type GatewayClient } from "../../../src/gateway/client.js";
import { parseConfig } from "../../../src/gateway/config.js";
import { openGateway, type Gateway } from "../../../src/gateway/gateway.js";
import { gatewaySocket } from "../../../src/gateway/server/listen.js";
import { readOperatorToken } from "../../../src/gateway/server/requester.js";
import { reach } from "../../../src/gateway/start.js";
import { main } from "../../cli/stage.js";
import { removeHome } from "../../remove-home.js";
import { startPooler } from "../../store/postgres/pooler.js";
import { startReplicatedServer, type ReplicatedServer } from "../../store/postgres/replicated.js";
import { startServer, type PostgresDatabase, type TestServer } from "../../store/postgres/server.js";

/** A gateway in this process, with a state directory of its own. */
export interface Member {
  readonly home: string;
  readonly gateway: Gateway;
  readonly token: string;
  readonly client: GatewayClient;
  readonly socketPath: string;
}

export interface Outside extends Pick<Member, "home" | "token" | "client" | "socketPath"> {
  kill(signal?: NodeJS.Signals): Promise<void>;
}

/** Listens for the others, wherever there is room. */
export const REACHABLE = '[peers]\nlisten = "127.0.0.1:0"\n';

/** Gateways of several state directories on one real database, and a stranger that must outlive them. */
export class Fleet implements AsyncDisposable {
  readonly server: TestServer;
  readonly database: PostgresDatabase;
  readonly members: Member[] = [];
  readonly #stranger: ChildProcess = spawn("sleep", ["3600"], { stdio: "ignore" });
  readonly #homes: string[] = [];
  readonly #children = new Set<ChildProcess>();
  readonly #beside: readonly AsyncDisposable[];

  /** `beside`: what stands between the gateways and the server, or beside it. */
  constructor(server: TestServer, database: PostgresDatabase, beside: readonly AsyncDisposable[] = []) {
    this.server = server;
    this.database = database;
    this.#beside = beside;
  }

  static async open(): Promise<Fleet> {
    const server = await startServer();
    const database = await server.createDatabase();
    vi.stubEnv("HOLDFAST_DATABASE_URL", database.url);
    return new Fleet(server, database);
  }

  /** The same, through PgBouncer. */
  static async throughPooler(): Promise<Fleet> {
    const server = await startServer();
    const pooler = await startPooler(server, { pool_mode: "session" });
    const database = await server.createDatabase();
    vi.stubEnv("HOLDFAST_DATABASE_URL", pooler.urlOf(database.url));
    return new Fleet(server, database, [pooler]);
  }

  /** The same, with the addresses of a primary and its stand-by. */
  static async replicated(): Promise<{ readonly fleet: Fleet; readonly replicated: ReplicatedServer }> {
    const replicated = await startReplicatedServer();
    const database = await replicated.createDatabase();
    vi.stubEnv("HOLDFAST_DATABASE_URL", database.url);
    return { fleet: new Fleet(replicated.primary, database, [replicated.standBy]), replicated };
  }

  async newHome(): Promise<string> {
    const home = await mkdtemp(join(tmpdir(), "hf-"));
    this.#homes.push(home);
    return home;
  }

  /** One more, or the next of a state directory. */
  async join(config = REACHABLE, home?: string): Promise<Member> {
    const its = home ?? (await this.newHome());
    const gateway = await openGateway({ home: its, onNews: () => {}, config: parseConfig(config, "") });
    await gateway.ready;
    const token = (await readOperatorToken(its)) ?? "";
    const socketPath = gatewaySocket(its);
    const member = {
      home: its,
      gateway,
      token,
      client: createClient({ socketPath, token }),
      socketPath,
    };
    this.members.push(member);
    return member;
  }

  /** One in a process of its own, which can be killed; by `around` in surroundings of its own; of another build. */
  async spawn(home?: string, around: readonly string[] = [], program = main): Promise<Outside> {
    const its = home ?? (await this.newHome());
    const words = [...around, process.execPath, program, "gateway", "run", "--quiet"];
    const child = spawn(words[0] ?? "", words.slice(1), {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, HOLDFAST_HOME: its, HOLDFAST_PEERS_LISTEN: "127.0.0.1:0" },
    });
    const ended = once(child, "exit");
    this.#children.add(child);
    void ended.then(() => this.#children.delete(child));
    const socketPath = gatewaySocket(its);
    const ready = async (): Promise<string | null> => {
      const reached = await reach(its).catch(() => null);
      return reached?.status.ready === true && reached.status.pid === child.pid
        ? readOperatorToken(its)
        : null;
    };
    let token: string | null = null;
    for (const end = performance.now() + 30_000; token === null && performance.now() < end;) {
      token = await ready();
      await setTimeout(20);
    }
    if (token === null) throw new Error("the gateway did not get ready");
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

  async leave(member: Member, runs: "leave" | "terminate" = "leave"): Promise<void> {
    this.members.splice(this.members.indexOf(member), 1);
    await member.gateway.stop({ runs, waitMs: 0 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const member of [...this.members]) await this.leave(member, "terminate");
    for (const child of this.#children) {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
    vi.unstubAllEnvs();
    for (const each of this.#beside) await each[Symbol.asyncDispose]();
    await this.server[Symbol.asyncDispose]();
    const survived = this.#stranger.exitCode === null && this.#stranger.signalCode === null;
    this.#stranger.kill("SIGKILL");
    for (const home of this.#homes) await removeHome(home);
    expect(survived, "the bystander").toBe(true);
  }
}

/** A run in the background. */
export async function start(
  { client }: Pick<Member, "client">,
  script: string,
  more: object = {},
): Promise<string> {
  const body = { argv: ["/bin/sh", "-c", script], background: true, graceMs: 300, ...more };
  return (await client.exec({ body })).run.runId;
}

/** Somebody who watches a run through a gateway. */
export class Viewer {
  readonly socket: WebSocket;
  readonly said: ToViewer[] = [];
  readonly closed: Promise<number>;
  text = "";
  nextOffset = 0;

  constructor({ socketPath, token }: Pick<Member, "socketPath" | "token">, runId: string, from = 0) {
    const path = `/v1/runs/${runId}/attach?stdout=${from}`;
    this.socket = new WebSocket(`ws+unix://${socketPath}:${path}`, {
      headers: { authorization: `Bearer ${token}` },
    });
    this.closed = new Promise((resolve) => this.socket.once("close", (code) => resolve(code)));
    this.socket.on("error", () => {});
    this.socket.on("message", (data: Buffer, binary: boolean) => {
      if (!binary) {
        this.said.push(JSON.parse(data.toString()) as ToViewer);
        return;
      }
      const { offset, bytes } = unframe(data);
      this.text += bytes.toString("latin1");
      this.nextOffset = offset + bytes.length;
    });
  }
}
