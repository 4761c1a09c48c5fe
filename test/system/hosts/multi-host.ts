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
  /** The address of the server. */
  readonly address: string;
  /** The part of the password that is the same in every encoding. */
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
  /** In the order of creation. */
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
      // With characters that a URL encodes.
      const password = `@:/?#%${secret}`;
      await database.query(`create role ada login password '${password}'`);
      await database.query(`grant create on database ${database.name} to ada`);
      const url = `postgres://ada:${encodeURIComponent(password)}@${network.address}/${database.name}`;
      const directory = await mkdtemp(join(tmpdir(), "hf-"));
      kept({ [Symbol.asyncDispose]: () => rm(directory, { recursive: true, maxRetries: 5 }) });
      const hosts: TestHost[] = [];
      for (const [at, name] of names.entries())
        hosts.push(kept(await TestHost.open({ name, number: at + 2, directory, network }, url)));
      // As the same user as the hosts: the creator of the tables owns them.
      const here = `postgres://ada@localhost/${database.name}?host=${server.directory}`;
      const store = kept(await database.open({ url: here }));
      return new MultiHost({ hosts, database, server, address: network.address, secret }, store, parts);
    } catch (error) {
      await disposeAll(parts);
      throw error;
    }
  }

  /** The host of a run. */
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

  /** Makes the lease of a run that old, and waits until each gateway reports that it leaves the run alone. */
  async expectUntouched(runId: string, forMs: number, gateways: readonly GatewayRun[]): Promise<void> {
    const hasReported = ({ events: news }: GatewayRun): boolean =>
      news.some((one) => one.type === "problem" && one.runId === runId && one.message.includes("left alone"));
    // Repeated, because a last renewal may arrive after the host is gone.
    const isLeftAlone = async (): Promise<boolean> => {
      const at = Math.floor((await this.#store.now()) - forMs);
      await this.database.query(
        `update holdfast.runs set lease_expires_at = ${at} where run_id = '${runId}' and lease_expires_at > ${at}`,
      );
      return gateways.every(hasReported);
    };
    await expect.poll(isLeftAlone, { interval: 200, timeout: 30_000 }).toBe(true);
  }

  /** True if its lease is valid for longer than this, by the clock of the server. */
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
