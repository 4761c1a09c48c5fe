import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { cliPath, cliWithDefaults } from "../../support/cli/cli-fixture.js";
import {
  type PostgresDatabase,
  postgresForSuite,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import { soak } from "../../support/scale.js";
import { removeStateDirectory } from "../../support/temporary-directory.js";
import { webhookConfig } from "../../support/http-receiver.js";

interface Received {
  readonly id: string;
  readonly taskId: string;
  readonly repeat: boolean;
}

/** A real receiver of webhooks; what it does not answer, it has received all the same. */
class Receiver implements AsyncDisposable {
  readonly received: Received[] = [];
  readonly #server: Server;
  readonly #unanswered: ServerResponse[] = [];
  mode: "accept" | "refuse" = "accept";
  /** It receives messages about these tasks, and does not answer. */
  readonly unansweredTasks = new Set<string>();

  constructor() {
    this.#server = createServer((request, response) => {
      void text(request).then((body) => {
        const id = String(request.headers["webhook-id"]);
        const isUnanswered = [...this.unansweredTasks].some((taskId) => id.includes(taskId));
        if (this.mode === "refuse" && !isUnanswered) return response.writeHead(503).end();
        const said = JSON.parse(body) as { data?: { taskId?: string; repeat?: boolean } };
        this.received.push({
          id,
          taskId: said.data?.taskId ?? (said as { taskId?: string }).taskId ?? "",
          repeat: body.includes('"repeat":true'),
        });
        if (isUnanswered) return this.#unanswered.push(response);
        return response.writeHead(204).end();
      });
    });
  }

  async listen(): Promise<number> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return (this.#server.address() as AddressInfo).port;
  }

  of(taskId: string): readonly Received[] {
    return this.received.filter(({ id }) => id.includes(taskId));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const response of this.#unanswered) response.destroy();
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

/** Each message that fails, or was in doubt, is repeated soon. */
const HURRIED = cliWithDefaults({
  deliveryRetryMs: 500,
  deliveryPollMs: 500,
  reconcileMs: 2_000,
  outboxDoubtMs: 4_000,
});

describe.skipIf(whyNoPostgres !== null)("tasks and messages after the store lost its newest records", () => {
  const server = postgresForSuite();
  let database: PostgresDatabase;
  let receiver: Receiver;
  let home: string;
  let env: NodeJS.ProcessEnv;
  let gateway: ChildProcess | null = null;
  let bystander: ChildProcess;
  let files: string;

  beforeEach(async () => {
    database = await server.createDatabase();
    receiver = new Receiver();
    home = await mkdtemp(join(tmpdir(), "hf-"));
    files = await mkdtemp(join(tmpdir(), "hf-config-"));
    bystander = spawn("sleep", ["300"], { stdio: "ignore" });
    const config = join(files, "config.toml");
    const url = `http://127.0.0.1:${await receiver.listen()}/`;
    await writeFile(config, webhookConfig(files, "ops", url), { mode: 0o600 });
    env = {
      ...process.env,
      HOLDFAST_HOME: home,
      HOLDFAST_CONFIG: config,
      HOLDFAST_DATABASE_URL: database.url,
    };
  });
  afterEach(async () => {
    await end("SIGTERM");
    await receiver[Symbol.asyncDispose]();
    expect([bystander.exitCode, bystander.signalCode]).toEqual([null, null]);
    bystander.kill("SIGKILL");
    await removeStateDirectory(home);
    await rm(files, { recursive: true });
  });

  const begin = async (): Promise<GatewayClient> => {
    gateway = spawn(process.execPath, [...HURRIED, "gateway", "run", "--quiet"], { env, stdio: "ignore" });
    const { pid } = gateway;
    await vi.waitFor(
      async () => {
        const status = (await reachGateway(home).catch(() => null))?.status;
        expect([status?.ready, status?.pid]).toEqual([true, pid]);
      },
      { timeout: 30_000, interval: 50 },
    );
    return createClient({
      socketPath: gatewaySocketPath(home),
      token: (await readOperatorToken(home)) ?? "",
    });
  };
  async function end(signal: NodeJS.Signals): Promise<void> {
    if (gateway === null) return;
    const ended = once(gateway, "exit");
    gateway.kill(signal);
    gateway = null;
    await ended;
  }
  const cli = (...args: string[]): Promise<string> =>
    new Promise((resolve) =>
      execFile(process.execPath, [cliPath, ...args], { env }, (_error, stdout) => resolve(stdout)),
    );
  const origin = { channel: "ops" };
  const external = async (client: GatewayClient, label: string): Promise<string> =>
    (await client.createTask({ body: { label, origin } })).task.taskId;
  const finish = (client: GatewayClient, id: string): Promise<unknown> =>
    client.finishTask({ params: { id }, body: { status: "succeeded", summary: "well" } });
  const statusOf = async (client: GatewayClient, id: string): Promise<readonly [string, string]> => {
    const { task } = await client.getTask({ params: { id } });
    return [task.status, task.delivery];
  };
  const becomes = (client: GatewayClient, id: string, status: string, delivery: string): Promise<unknown> =>
    vi.waitFor(async () => expect(await statusOf(client, id)).toEqual([status, delivery]), {
      timeout: 90_000,
      interval: 100,
    });

  test.for([
    ...(soak ? [{ name: "under a live gateway", gatewayDies: false, standBy: false }] : []),
    { name: "whose gateway was killed", gatewayDies: true, standBy: false },
    { name: "by a promoted stand-by that lacked the newest writes", gatewayDies: false, standBy: true },
  ])(
    "$name: all records are restored, each end is notified once, and a message in doubt is repeated and marked",
    { timeout: 240_000 },
    async ({ gatewayDies, standBy }) => {
      let client = await begin();
      const endsAfter = await external(client, "ends after the backup");
      const sent = await external(client, "received, and not acknowledged");
      const deliveredBefore = await external(client, "delivered before");
      await finish(client, deliveredBefore);
      await becomes(client, deliveredBefore, "succeeded", "delivered");
      await server.backUp();
      await vi.waitFor(async () => expect((await client.status()).storeAway).toBeNull(), {
        timeout: 20_000,
      });

      // All of this will be forgotten.
      await finish(client, endsAfter);
      await becomes(client, endsAfter, "succeeded", "delivered");
      const delivered = await external(client, "created and delivered");
      await finish(client, delivered);
      await becomes(client, delivered, "succeeded", "delivered");
      const open = await external(client, "still open");
      await client.taskProgress({ params: { id: open }, body: { text: "half way" } });
      const { session } = await client.openSession({ body: { key: "since" } });
      const running = await client.exec({
        body: { command: "while :; do sleep 0.1; done", background: true, notify: "done_only", origin },
      });
      const { task: work } = await client.getTask({ params: { id: running.run.runId } });
      const workId = work.taskId;
      await becomes(client, workId, "running", "pending");
      receiver.mode = "refuse";
      const promised = await external(client, "promised and not delivered");
      await finish(client, promised);
      await vi.waitFor(
        async () => {
          const { messages } = await client.getTask({ params: { id: promised } });
          expect(messages).toMatchObject([
            { status: "pending", error: expect.stringContaining("503") as string },
          ]);
        },
        { timeout: 30_000, interval: 50 },
      );

      // A message that a killed gateway was sending may have arrived.
      if (gatewayDies) {
        receiver.unansweredTasks.add(sent);
        await finish(client, sent);
        await vi.waitFor(() => expect(receiver.of(sent)).not.toEqual([]), { timeout: 30_000, interval: 20 });
        await end("SIGKILL");
      }
      await server.kill();
      await server.goBack();
      await server.start({ standBy });
      if (standBy) await database.query("select pg_promote()");
      receiver.mode = "accept";
      receiver.unansweredTasks.clear();
      if (gatewayDies) client = await begin();

      for (const id of [endsAfter, delivered, promised, deliveredBefore])
        await becomes(client, id, "succeeded", "delivered");
      await becomes(client, open, "running", "pending");
      expect((await client.getTask({ params: { id: open } })).task.progress).toBe("half way");
      expect(await client.sessionStatus({ params: { id: session.id } })).toMatchObject({
        session: { key: "since" },
      });
      await finish(client, open);
      await client.cancelTask({ params: { id: workId } });
      await becomes(client, open, "succeeded", "delivered");
      await becomes(client, workId, "cancelled", "delivered");
      for (const id of [endsAfter, delivered, promised, deliveredBefore, open, workId])
        expect(receiver.of(id), id).toEqual([
          expect.objectContaining({ id: `task-terminal:${id}`, repeat: false }),
        ]);
      if (gatewayDies) {
        await becomes(client, sent, "succeeded", "delivered");
        expect(receiver.of(sent).map(({ id, repeat }) => [id, repeat])).toEqual([
          [`task-terminal:${sent}`, false],
          [`task-terminal:${sent}`, true],
        ]);
      }
      const types = (await client.getTask({ params: { id: promised } })).events.map(({ type }) => type);
      expect(types.filter((type) => type === "ended")).toEqual(["ended"]);
      expect(types).toContain("restored");
      expect(await cli("tasks", "audit", "--json")).toContain("tokens of session since");
      expect(await cli("doctor", "--json")).toContain("tokens of session since");
    },
  );
});
