import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import type { RequestOf } from "../../../src/api/contract.js";
import { fakeAgentsConfig } from "../../support/agents/fake-agents.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { BatchCli } from "../../support/cli/batch-cli.js";

type TaskBody = Partial<RequestOf<"createTask">["body"]>;

/** A gateway with two channels for the tests of a file: `deaf` cannot deliver, `user` writes to `received`. */
class TasksFixture {
  gatewayFixture!: BackgroundGateway;
  batchCli!: BatchCli;
  client!: GatewayClient;
  /** The notifications of the channel `user`, one per line. */
  received!: string;

  async open(): Promise<void> {
    this.gatewayFixture = await BackgroundGateway.open();
    const config = join(this.gatewayFixture.home, "config.toml");
    this.received = join(this.gatewayFixture.home, "received");
    await writeFile(this.received, "");
    const channels = `[channels.deaf]
kind = "telegram"
token = { env = "NO_BOT_OF_OURS" }
[channels.user]
kind = "command"
argv = ["/bin/sh", "-c", "cat >> ${this.received}"]`;
    await writeFile(config, `${fakeAgentsConfig}\n${channels}`);
    const env = { ...this.gatewayFixture.env, HOLDFAST_CONFIG: config };
    await this.gatewayFixture.startWith(env, "gateway", "start").finished;
    this.batchCli = new BatchCli(env);
    this.client = await this.gatewayFixture.client();
  }

  async close(): Promise<void> {
    await this.batchCli[Symbol.asyncDispose]();
    await this.gatewayFixture[Symbol.asyncDispose]();
  }

  tasks(...words: readonly string[]) {
    return this.batchCli.holdfast("tasks", ...words);
  }

  async json<Value>(...words: readonly string[]): Promise<Value> {
    return JSON.parse((await this.tasks(...words, "--json")).stdout) as Value;
  }

  /** Creates a task of another program. */
  async external(body: TaskBody = {}): Promise<string> {
    return (await this.client.createTask({ body: { label: "count the words", ...body } })).task.taskId;
  }

  async finished(body: RequestOf<"finishTask">["body"], more: TaskBody = {}): Promise<string> {
    const id = await this.external(more);
    await this.client.finishTask({ params: { id }, body });
    return id;
  }
}

export function tasksFixtureForFile(): TasksFixture {
  const fixture = new TasksFixture();
  beforeAll(() => fixture.open(), 60_000);
  afterAll(() => fixture.close());
  return fixture;
}
