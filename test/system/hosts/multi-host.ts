import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import type { RunEvent } from "../../../src/model/run-event.js";
import type { RunRecord } from "../../../src/model/run.js";
import type { Store } from "../../../src/store/store.js";
import type { GatewayRun } from "../../support/cli/recovery-fixture.js";
import {
  startPostgresServer,
  type PostgresDatabase,
  type PostgresServer,
} from "../../support/store/postgres-server.js";
import { TestHost } from "./test-host.js";
import { TestNetwork } from "./test-network.js";
import { waitFor } from "../../support/wait-for.js";

interface MultiHostParts {
  readonly hosts: readonly TestHost[];
  readonly database: PostgresDatabase;
  readonly server: PostgresServer;
  /** The server's. */
  readonly address: string;
  /** What of the hosts' password is the same however it is written. */
  readonly secret: string;
}

/** Hosts with a network of their own, and one database for all of them. */
export class MultiHost implements MultiHostParts, AsyncDisposable {
  readonly hosts: readonly TestHost[];
  readonly database: PostgresDatabase;
  readonly server: PostgresServer;
  readonly address: string;
  readonly secret: string;
  readonly #store: Store;
  /** In the order in which they were made. */
  readonly #parts: readonly AsyncDisposable[];

  private constructor(facts: MultiHostParts, store: Store, parts: readonly AsyncDisposable[]) {
    this.hosts = facts.hosts;
    this.database = facts.database;
    this.server = facts.server;
    this.address = facts.address;
    this.secret = facts.secret;
    this.#store = store;
    this.#parts = parts;
  }

  static async open(names: readonly string[]): Promise<MultiHost> {
    const parts: AsyncDisposable[] = [];
    const kept = <One extends AsyncDisposable>(one: One): One => {
      parts.push(one);
      return one;
    };
    try {
      const network = kept(await TestNetwork.open());
      const server = kept(await startPostgresServer(network));
      const database = await server.createDatabase();
      const secret = randomBytes(12).toString("hex");
      // With all that has to be written in another way in a URL.
      const password = `@:/?#%${secret}`;
      await database.query(`create role ada login password '${password}'`);
      await database.query(`grant create on database ${database.name} to ada`);
      const url = `postgres://ada:${encodeURIComponent(password)}@${network.address}/${database.name}`;
      const directory = await mkdtemp(join(tmpdir(), "hf-"));
      kept({ [Symbol.asyncDispose]: () => rm(directory, { recursive: true, maxRetries: 5 }) });
      const hosts: TestHost[] = [];
      for (const [at, name] of names.entries())
        hosts.push(kept(await TestHost.open({ name, number: at + 2, directory, network }, url)));
      // As the hosts do: whoever makes the tables owns them.
      const here = `postgres://ada@localhost/${database.name}?host=${server.directory}`;
      const store = kept(await database.open({ url: here }));
      return new MultiHost({ hosts, database, server, address: network.address, secret }, store, parts);
    } catch (error) {
      await disposeAll(parts);
      throw error;
    }
  }

  /** Where a run lives. */
  hostOf({ hostId }: Pick<RunRecord, "hostId">): TestHost {
    const host = this.hosts.find((each) => each.hostId === hostId);
    if (host === undefined) throw new Error(`no host is ${hostId}`);
    return host;
  }

  async record(runId: string): Promise<RunRecord> {
    const record = await this.#store.getRun(runId);
    if (record === null) throw new Error(`no record of ${runId}`);
    return record;
  }

  async records(): Promise<readonly RunRecord[]> {
    return this.#store.listRuns({});
  }

  async events(runId: string): Promise<readonly RunEvent[]> {
    return this.#store.listEvents({ runId });
  }

  /** Its record, once it has an end. */
  async waitForEnd(runId: string, withinMs = 20_000): Promise<RunRecord> {
    await waitFor(`${runId} has ended`, async () => (await this.record(runId)).state === "exited", withinMs);
    return this.record(runId);
  }

  /** Nothing was heard of a run's owner for that long. Until each of these has looked, and said what it makes of it. */
  async expectUntouched(runId: string, forMs: number, gateways: readonly GatewayRun[]): Promise<void> {
    const saidBy = ({ events: news }: GatewayRun): boolean =>
      news.some((one) => one.type === "problem" && one.runId === runId && one.message.includes("left alone"));
    // Again and again: a last renewal may still be on its way when its host is gone.
    const look = async (): Promise<boolean> => {
      const at = Math.floor((await this.#store.now()) - forMs);
      await this.database.query(
        `update holdfast.runs set lease_expires_at = ${at} where run_id = '${runId}' and lease_expires_at > ${at}`,
      );
      return gateways.every(saidBy);
    };
    await expect.poll(look, { interval: 200, timeout: 30_000 }).toBe(true);
  }

  /** Whether its lease is good for longer than this, by the server's clock. */
  async leasedFor(runId: string, ms: number): Promise<boolean> {
    return (await this.record(runId)).leaseExpiresAt > (await this.#store.now()) + ms;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await disposeAll(this.#parts);
  }
}

async function disposeAll(parts: readonly AsyncDisposable[]): Promise<void> {
  for (const part of parts.toReversed()) await part[Symbol.asyncDispose]();
}
