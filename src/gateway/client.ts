import { request as httpRequest } from "node:http";
import { setTimeout } from "node:timers/promises";
import { GatewayUnreachable, HoldfastError } from "../errors.js";
import { addresses } from "./contract/addresses.js";
import type { AnswerOf, AskedOf, Verb } from "./contract/contract.js";
import type { Route } from "./contract/route.js";
import {
  ProvenAgent,
  sendProven,
  type GatewayAddress,
  type ProvenRequestOptions,
} from "./proven-connection.js";
import { GatewayError, type ErrorAnswer } from "./server/error-answer.js";

export { GatewayError } from "./server/error-answer.js";

/** Not from the contract itself: its schemas take longer to load than most questions to be answered. */
const known: Readonly<Record<Verb, Pick<Route, "method" | "path">>> = addresses;

/** A full queue of connections is accepted within milliseconds; a second of it is a gateway in trouble. */
const KNOCKS = 20;
const KNOCK_MS = 50;

export type ClientOptions = GatewayAddress;

/** What a caller may leave out. */
type Question<V extends Verb> = Partial<AskedOf<V>>;
export type GatewayClient = {
  readonly [V in Verb]: (question?: Question<V>, signal?: AbortSignal) => Promise<AnswerOf<V>>;
};

/**
 * Client with one function for each route of the gateway. The token is never sent: client and gateway prove to each other that
 * they know it, once per connection.
 */
export function createClient(options: ClientOptions): GatewayClient {
  const agent = new ProvenAgent(options);
  const verbs = Object.keys(known) as Verb[];
  return Object.fromEntries(
    verbs.map((verb) => [
      verb,
      (question: Question<Verb> = {}, signal?: AbortSignal) => ask(options, agent, verb, question, signal),
    ]),
  ) as GatewayClient;
}

async function ask(
  { socketPath }: ClientOptions,
  agent: ProvenAgent,
  verb: Verb,
  question: Question<Verb>,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  const { method, path } = known[verb];
  const params: Readonly<Record<string, string>> = question.params ?? {};
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
  const search = new URLSearchParams();
  const query = (question.query ?? {}) as Readonly<Record<string, string | number | undefined>>;
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value));
  const target = search.size === 0 ? filled : `${filled}?${search.toString()}`;
  const body = method === "POST" ? JSON.stringify(question.body ?? {}) : null;
  const { status, text } = await knock(() => send(socketPath, agent, method, target, body, signal));
  const answer = parse(text);
  if (status >= 200 && status < 300) return answer;
  const error = (answer as Partial<ErrorAnswer> | null)?.error;
  throw new GatewayError(error ?? { code: "INTERNAL", message: `the gateway answered ${status}` });
}

/** A local socket turns away whoever finds its queue full: nothing was asked yet, so it can be tried again. */
async function knock<T>(attempt: () => Promise<T>): Promise<T> {
  for (let left = KNOCKS; ; left--)
    try {
      return await attempt();
    } catch (error) {
      const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
      if (code !== "EAGAIN" || left === 0) throw error;
      await setTimeout(KNOCK_MS);
    }
}

function send(
  socketPath: string,
  agent: ProvenAgent,
  method: string,
  path: string,
  body: string | null,
  signal: AbortSignal | undefined,
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const failed = (cause: NodeJS.ErrnoException): void => {
      if (signal?.aborted === true || cause instanceof HoldfastError) return reject(cause);
      const nobody = cause.code === "ENOENT" || cause.code === "ECONNREFUSED";
      const why = nobody
        ? `no gateway listens on ${socketPath}`
        : `the gateway on ${socketPath} broke off: ${cause.message}`;
      reject(new GatewayUnreachable(why, { cause }));
    };
    const options: ProvenRequestOptions = {
      agent,
      socketPath,
      method,
      path,
      ...(signal === undefined ? {} : { signal, proofSignal: signal }),
      headers:
        body === null
          ? {}
          : { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
    };
    const asking = httpRequest(options, (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("error", failed);
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString("utf8") }),
      );
    });
    asking.on("error", failed);
    sendProven(asking, body ?? undefined);
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
