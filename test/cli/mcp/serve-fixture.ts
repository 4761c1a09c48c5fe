import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { CliFixture } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

/** A state directory whose gateway `holdfast mcp` starts. */
export class ServeFixture extends CliFixture {
  readonly #clients: WireClient[] = [];

  static override async open(): Promise<ServeFixture> {
    return new ServeFixture(await mkdtemp(join(tmpdir(), "hf-")));
  }

  async operator(): Promise<GatewayClient> {
    const token = (await readOperatorToken(this.home)) ?? "";
    return createClient({ socketPath: gatewaySocketPath(this.home), token });
  }

  /** Starts `holdfast mcp` for a client that writes every message itself. */
  connect(): WireClient {
    const client = new WireClient(this.start("mcp", "--allow", "*", "--session", "wire").child);
    this.#clients.push(client);
    return client;
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.kill()));
    await this.holdfast("gateway", "stop", "--runs", "terminate");
    await super[Symbol.asyncDispose]();
  }
}

export interface WireMessage {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly message: string };
}

/** The metadata in each request of a client of the revision 2026-07-28 that knows the tasks extension. */
const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "wire", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } },
};

export class WireClient {
  readonly received: WireMessage[] = [];
  readonly #child: ReturnType<CliFixture["start"]>["child"];
  #last = 0;

  constructor(child: ReturnType<CliFixture["start"]>["child"]) {
    this.#child = child;
    createInterface({ input: child.stdout }).on("line", (line) => {
      this.received.push(JSON.parse(line) as WireMessage);
    });
  }

  /** Sends a request, and returns its id. `meta` null: of an earlier revision. */
  send(method: string, params: object, meta: object | null = META): number {
    const id = ++this.#last;
    const all = meta === null ? params : { ...params, _meta: meta };
    this.#child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params: all })}\n`);
    return id;
  }

  /** Sends a request and waits for its answer. */
  async ask(method: string, params: object, meta: object | null = META): Promise<WireMessage> {
    const id = this.send(method, params, meta);
    const find = (): WireMessage | undefined => this.received.find((each) => each.id === id);
    await waitFor(`${method} is answered`, () => find() !== undefined);
    return find() ?? expect.fail("it was not answered");
  }

  /** Resolves when a notification with these parameters has come. */
  async heard(method: string, params: object): Promise<void> {
    await waitFor(`${method} is told`, () =>
      this.received.some(
        (each) =>
          each.method === method &&
          Object.entries(params).every(([name, value]) => each.params?.[name] === value),
      ),
    );
  }

  cancel(requestId: number): void {
    const message = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } };
    this.#child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exited;
  }

  async close(): Promise<void> {
    const exited = once(this.#child, "exit");
    this.#child.stdin.end();
    await exited;
  }
}
