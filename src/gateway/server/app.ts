import type { IncomingMessage, ServerResponse } from "node:http";
import type { z } from "zod";
import { defaults } from "../../defaults.js";
import {
  AcpClosed,
  AcpNotHeld,
  AcpTimeout,
  BadInput,
  NotFound,
  PeerUnreachable,
  SupervisorClosed,
  TooLarge,
  TooManyRequests,
  Unauthorized,
} from "../../errors.js";
import { contract, type AnswerOf, type HeardOf, type Verb } from "../contract/contract.js";
import type { Route } from "../contract/route.js";
import type { Admission, CountedRequest } from "./admission.js";
import { answerFor, headersFor, statusFor } from "./error-answer.js";
import { Budget } from "./budget.js";
import { CHALLENGE_PATH } from "../token-proof.js";
import { answerChallenge, tokenOf } from "./challenge.js";
import type { Entrance } from "./entrance.js";
import { mustBeServed } from "./loopback.js";
import { isDoneWithAgent } from "../peers/acp-whereabouts.js";
import { passRequest } from "../peers/pass-on.js";
import { matchPath } from "./match-path.js";
import { Pipelines } from "./pipeline.js";
import type { Requester } from "./requester.js";

/** Why `gone` aborts when it was not the caller who hung up. */
export const GATEWAY_STOPS = "the gateway stops";

/** What a handler gets beside the question. `gone` aborts when the caller has left. */
export interface Asking {
  readonly requester: Requester;
  readonly gone: AbortSignal;
  /** The request comes from another gateway, so it is not forwarded again. */
  readonly fromPeer?: boolean;
  /** Does work when it is the requester's turn. For work after a long wait, and for each page of a stream. */
  readonly turn: <Result>(work: () => Promise<Result>) => Promise<Result>;
  /** Counts a stream of the requester until it is disposed of. Throws TooManyStreams. */
  readonly stream: () => Disposable;
}

export type Handlers = {
  readonly [V in Verb]: (heard: HeardOf<V>, asking: Asking) => Promise<AnswerOf<V>>;
};

/** Answers that are no JSON object, or that go on: written by hand. True: it has answered. */
export type Special = (
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
  asking: Asking,
) => Promise<boolean>;

export interface AppOptions {
  readonly handlers: Handlers;
  readonly special: Special;
  readonly entrance: Entrance;
  readonly admission: Admission;
  /** Rejects with SessionStorageFull. */
  readonly mustHaveRoom: (requester: Requester) => Promise<void>;
  readonly stopping: () => boolean;
  readonly failed: (error: unknown, what: string) => void;
}

/** The gateway's answers, whatever they come in through. */
export function createApp(options: AppOptions): (request: IncomingMessage, response: ServerResponse) => void {
  const budget = new Budget(defaults.requestsPerSecond, defaults.requestBurst);
  const pipelines = new Pipelines();
  return (request, response) => {
    const gone = new AbortController();
    response.once("close", () => gone.abort(options.stopping() ? GATEWAY_STOPS : "the caller left"));
    const failed = (error: unknown): void => {
      // A request that broke off half-way is no failure of ours, nor is one that we broke off or came too late for.
      const broken =
        request.errored !== null ||
        gone.signal.reason === GATEWAY_STOPS ||
        error instanceof SupervisorClosed ||
        // Nor is another host that is away.
        error instanceof PeerUnreachable ||
        ofTheAgent(error);
      if (statusFor(error) >= 500 && !broken)
        options.failed(error, `${request.method ?? ""} ${request.url ?? ""}`);
      if (response.headersSent || response.destroyed) response.destroy();
      else sendJson(response, statusFor(error), answerFor(error), headersFor(error));
    };
    pipelines.add(request.socket, () =>
      answer(options, budget, request, response, gone.signal).catch(failed),
    );
  };
}

/** What an agent does wrong is told to whoever asked; it is no failure of the gateway. */
function ofTheAgent(error: unknown): boolean {
  return error instanceof AcpClosed || error instanceof AcpTimeout;
}

async function answer(
  options: AppOptions,
  budget: Budget,
  request: IncomingMessage,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  const { entrance, admission } = options;
  mustBeServed(entrance.served, request);
  if (entrance.hashOf !== null && request.method === "GET" && request.url === CHALLENGE_PATH)
    return void sendJson(response, 200, await answerChallenge(entrance.hashOf, request));
  const requester = await entrance.requesterOf(request);
  entrance.connections?.identify(request.socket, requester);
  if (!budget.take(requester.actor))
    throw new TooManyRequests(`sent ${defaults.requestsPerSecond} requests in a second`);
  if (gone.aborted) return;
  const counted = admission.request(requester);
  response.once("close", () => counted[Symbol.dispose]());
  // The caller may close the connection before its turn.
  await admission.run(requester, () =>
    gone.aborted ? Promise.resolve() : respond(options, requester, counted, request, response, gone),
  );
}

/** Verbs that add records to the store. */
const STORING: ReadonlySet<Verb> = new Set(["exec", "runAgent", "acpSpawn", "createTask"]);

async function respond(
  options: AppOptions,
  requester: Requester,
  counted: CountedRequest,
  request: IncomingMessage,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  const { entrance, admission } = options;
  const url = urlOf(request);
  const asking: Asking = {
    requester,
    gone,
    fromPeer: entrance.forPeers,
    turn: (work) => admission.run(requester, work),
    stream: () => admission.stream(requester),
  };
  if (!entrance.forPeers && (await options.special(request, response, url, asking))) return;
  const found = find(request.method ?? "", url.pathname);
  if (found === null) throw new NotFound(`${request.method ?? ""} ${url.pathname}`);
  const { verb, route, params } = found;
  // Not seen is not there: the same answer as for a path that does not exist.
  const ofAgent = isDoneWithAgent(verb);
  // A peer asks for a stop only if it cannot read the store, through which stops are handed over otherwise.
  const there = ofAgent || isAnsweredThere(verb) || (entrance.forPeers && verb === "kill");
  if ((route.audience === "operator" && requester.kind !== "operator") || (entrance.forPeers && !there))
    throw new NotFound(`${request.method ?? ""} ${url.pathname}`);
  const named = parse(route.params, params, "the path");
  try {
    const peer = ofAgent
      ? await entrance.whoSpeaks(requester, verb, params["id"] ?? "")
      : there
        ? await entrance.whoHas(requester, params["runId"] ?? "")
        : null;
    if (peer !== null) return await passRequest(peer, requester, request, response, gone);
  } catch (error) {
    // What is only looked at is shown as the store has it.
    if (!(error instanceof AcpNotHeld) || verb !== "acpShow" || response.headersSent) throw error;
  }
  const heard = {
    params: named,
    query: parse(route.query, Object.fromEntries(url.searchParams), "the query"),
    body: parse(route.body, route.method === "POST" ? await readBody(request, counted) : {}, "the body"),
  };
  if (STORING.has(verb)) await options.mustHaveRoom(requester);
  const handler = options.handlers[verb] as (heard: unknown, asking: Asking) => Promise<unknown>;
  counted.give(sendJson(response, 200, await handler(heard, asking)));
}

/** Records are in the store for all to read, and a stop is handed over by it; anything else of a run is where it runs. */
const ANSWERED_ANYWHERE: ReadonlySet<Verb> = new Set(["getRun", "kill", "remove"]);

function isAnsweredThere(verb: Verb): boolean {
  return contract[verb].path.includes("{runId}") && !ANSWERED_ANYWHERE.has(verb);
}

export function urlOf({ method = "", url = "/" }: IncomingMessage): URL {
  // A path of its own, never another host: `//x` is one that does not exist.
  if (url.startsWith("/") && !url.startsWith("//")) return new URL(url, "http://gateway");
  throw new NotFound(`${method} ${url}`);
}

/** Whoever the request's token acts for. */
export async function requesterOf(
  authenticate: (token: string) => Promise<Requester | null>,
  request: IncomingMessage,
): Promise<Requester> {
  const token = tokenOf(request);
  const requester = token === null ? null : await authenticate(token);
  if (requester === null) throw new Unauthorized("a valid token is needed");
  return requester;
}

function find(
  method: string,
  path: string,
): { readonly verb: Verb; readonly route: Route; readonly params: Record<string, string> } | null {
  for (const verb of Object.keys(contract) as Verb[]) {
    const route: Route = contract[verb];
    const params = route.method === method ? matchPath(route.path, path) : null;
    if (params !== null) return { verb, route, params };
  }
  return null;
}

export function parse<Shape extends z.ZodType>(shape: Shape, value: unknown, where: string): z.output<Shape> {
  const parsed = shape.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const field = issue?.path.join(".") ?? "";
  throw new BadInput(
    field === "" ? where : field,
    `${where} cannot be used${field === "" ? "" : `: ${field}`}: ${issue?.message ?? "it is not as agreed"}; nothing was done`,
  );
}

async function readBody(request: IncomingMessage, counted: CountedRequest): Promise<unknown> {
  const parts: Buffer[] = [];
  let size = 0;
  // Not destroyed when it is too large: there would be nobody left to tell.
  for await (const part of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > defaults.requestBytes) throw new TooLarge(defaults.requestBytes);
    counted.take(part.length);
    parts.push(part);
  }
  if (size === 0) return {};
  try {
    return JSON.parse(Buffer.concat(parts).toString("utf8")) as unknown;
  } catch (error) {
    throw new BadInput("body", `the body is not JSON (${(error as Error).message}); nothing was done`);
  }
}

/** Returns the size of the answer. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): number {
  const text = Buffer.from(JSON.stringify(body));
  response.writeHead(status, {
    ...headers,
    "content-type": "application/json",
    "content-length": text.length,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  response.end(text);
  return text.length;
}
