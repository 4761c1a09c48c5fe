import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { deferred } from "../../../src/async/deferred.js";
import { messages } from "./anthropic.js";
import {
  callShellTool,
  type JsonObject,
  type ModelAnswer,
  type ModelDialect,
  type ModelRequest,
  type ModelTool,
} from "./dialect.js";
import { generateContent } from "./gemini.js";
import { chatCompletions, responses } from "./openai.js";

const dialects: readonly ModelDialect[] = [chatCompletions, responses, generateContent, messages];

/** Decides on an answer from the tools that are offered, and from the whole request as text. */
export type ModelStep = (tools: readonly ModelTool[], body: string) => ModelAnswer;

/** The answer to the next prompts. */
interface ModelScript {
  /** The answers to the next requests with tools, one each. */
  steps: ModelStep[];
  /** A command that the agent's shell tool runs first; null: none. */
  command: string | null;
  /** The answer, after the result of the command if there is one. */
  text: string;
}

/** A language model on loopback with scripted answers. */
export class FakeLanguageModel implements AsyncDisposable {
  readonly script: ModelScript = { steps: [], command: null, text: "Done." };
  /** The kind of every request, in order. */
  readonly asked: ModelRequest["kind"][] = [];
  /** The bodies of the requests with tools. Some agents make requests of their own beside those of a prompt. */
  readonly bodies: string[] = [];
  /** Other paths that were requested. */
  readonly other: string[] = [];
  readonly #server = createServer((request, response) => {
    this.#serve(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  #held: Promise<void> = Promise.resolve();

  static async start(): Promise<FakeLanguageModel> {
    const model = new FakeLanguageModel();
    model.#server.listen(0, "127.0.0.1");
    await once(model.#server, "listening");
    return model;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** True if one request with tools had all these texts. */
  hasReceived(...texts: readonly string[]): boolean {
    return this.bodies.some((body) => texts.every((each) => body.includes(each)));
  }

  /** Holds back all answers until the returned function is called. */
  hold(): () => void {
    const released = deferred<void>();
    this.#held = released.promise;
    return () => released.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? "/", "http://model");
    const body = await text(request);
    const dialect = dialects.find((each) => each.matches(pathname));
    if (dialect === undefined) return this.#elsewhere(pathname, response);
    const ask = dialect.read(JSON.parse(body) as JsonObject, pathname);
    this.asked.push(ask.kind);
    if (ask.kind !== "aside") {
      this.bodies.push(body);
      await this.#held;
    }
    const reply = { ...this.#answer(ask, body), number: this.asked.length };
    response.setHeader("content-type", ask.streamed ? "text/event-stream" : "application/json");
    response.end(ask.streamed ? dialect.stream(reply).join("") : JSON.stringify(dialect.whole(reply)));
  }

  #answer({ kind, tools }: ModelRequest, body: string): ModelAnswer {
    const step = kind === "aside" ? undefined : this.script.steps.shift();
    if (step !== undefined) return step(tools, body);
    const { command, text: answer } = this.script;
    return kind === "prompt" && command !== null ? callShellTool(tools, command) : { text: answer };
  }

  #elsewhere(path: string, response: ServerResponse): void {
    this.other.push(path);
    const counting = path.endsWith(":countTokens");
    const listing = path.endsWith("/models");
    response.statusCode = counting || listing ? 200 : 404;
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify(
        counting ? { totalTokens: 10 } : listing ? { object: "list", data: [], models: [] } : { error: {} },
      ),
    );
  }
}
