import type { LookupAddress } from "node:dns";
import { lookup } from "node:dns/promises";
import { type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest, type RequestOptions } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { Semaphore } from "../async/semaphore.js";
import { isAllowedAddress } from "../config/allowed-networks.js";
import type { HttpChannelOptions } from "../config/channels.js";
import { defaults } from "../defaults.js";
import { packageVersion } from "../home/package.js";
import { DeliveryFailed } from "../tasks/delivery.js";
import { truncate } from "../text/truncate.js";
import { redactSecrets } from "./secrets.js";

/** What a Retry-After header asks for: seconds, or a date. Null: nothing that can be understood. */
export function parseRetryAfter(header: string | undefined, now: number): number | null {
  if (header === undefined) return null;
  const ms = /^\s*\d+\s*$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - now;
  return Number.isNaN(ms) ? null : boundRetryAfter(ms);
}

export function boundRetryAfter(ms: number): number {
  return Math.min(Math.max(ms, 0), defaults.channelRetryAfterMs);
}

export interface HttpMessage {
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
  readonly rules: HttpChannelOptions;
  /** Not to be repeated in a message, beside the parts of the address. */
  readonly secrets?: readonly string[];
}

export interface HttpResult {
  readonly status: number;
  /** As much of it as is read at all. */
  readonly body: string;
  /** The beginning of it, fit to be shown. */
  readonly excerpt: string;
  readonly retryAfterMs: number | null;
}

/** Every address of a name. */
export type ResolveAddresses = (name: string) => Promise<readonly LookupAddress[]>;

/** A name that is not answered for holds one of the four threads that this process also has for its files. */
const MAX_LOOKUPS = 2;
const lookupSlots = new Semaphore(MAX_LOOKUPS);
/** By name: one of them at a time, so that it leaves the other thread to others. */
const lookupSlotsByName = new Map<string, Semaphore>();
const systemResolve: ResolveAddresses = (name) => lookup(name, { all: true });

/** Short parts of an address are words, and no secrets. */
const MIN_SECRET_CHARS = 6;

/**
 * One POST with JSON, answered within a time and to an end. Follows no redirect, and connects only where the rules allow: the
 * addresses that were looked at are the ones that are connected to, so a name cannot change its mind in between.
 */
export async function postJson(
  message: HttpMessage,
  signal: AbortSignal,
  resolve: ResolveAddresses = systemResolve,
): Promise<HttpResult> {
  const { url, rules } = message;
  if (url.protocol !== "https:" && !rules["allow-http"])
    throw new DeliveryFailed(`${url.host} is not reached by https, and allow-http is not set`);
  const literal = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(literal) !== 0 && !isAllowedAddress(literal, rules["allow-networks"]))
    throw forbiddenAddressError(url);
  const late = AbortSignal.timeout(rules["timeout-ms"]);
  let resultUnknown = false;
  try {
    const response = await sendRequest(
      message,
      AbortSignal.any([signal, late]),
      resolve,
      () => (resultUnknown = true),
    );
    const answer = await readResponse(message, response);
    if (answer.status >= 300 && answer.status < 400)
      throw new DeliveryFailed(`${url.host} redirects elsewhere (${answer.status}), which is not followed`);
    return answer;
  } catch (error) {
    if (error instanceof DeliveryFailed) throw error;
    if (signal.aborted) throw new DeliveryFailed(`sending to ${url.host} was given up`, { resultUnknown });
    const why = `${url.host} did not answer to the end within ${rules["timeout-ms"]} ms`;
    if (late.aborted) throw new DeliveryFailed(why, { resultUnknown });
    throw connectionError(url, error, resultUnknown);
  }
}

/** A receiver that does not take it: `permanent` are the statuses that will not change by themselves. */
export function rejectionError(
  { url }: HttpMessage,
  answer: HttpResult,
  permanent: readonly number[],
): DeliveryFailed {
  const words = answer.excerpt === "" ? "" : `: ${answer.excerpt}`;
  return new DeliveryFailed(`${url.host} answered ${answer.status}${words}`, {
    permanent: permanent.includes(answer.status),
    retryAfterMs: answer.retryAfterMs,
  });
}

export function isAccepted({ status }: HttpResult): boolean {
  return status >= 200 && status < 300;
}

function sendRequest(
  message: HttpMessage,
  signal: AbortSignal,
  resolve: ResolveAddresses,
  onSent: () => void,
): Promise<IncomingMessage> {
  const { url, body } = message;
  const options: RequestOptions = {
    method: "POST",
    agent: false,
    // Also where NODE_TLS_REJECT_UNAUTHORIZED is 0, for whatever else runs in that environment.
    rejectUnauthorized: true,
    signal,
    lookup: filteredLookup(message, signal, resolve),
    headers: {
      ...message.headers,
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body),
      "user-agent": `holdfast/${packageVersion()}`,
      accept: "application/json, text/plain",
    },
  };
  return new Promise((answered, reject) => {
    const outgoing: ClientRequest = (url.protocol === "https:" ? httpsRequest : httpRequest)(url, options);
    // It may break again while the answer is read, which then says so itself.
    outgoing.on("error", reject);
    outgoing.once("finish", onSent);
    outgoing.once("response", answered);
    // Without an error, as when another protocol is answered.
    outgoing.once("close", () => {
      const resultUnknown = outgoing.writableFinished;
      reject(new DeliveryFailed(`${url.host} has closed without an answer`, { resultUnknown }));
    });
    outgoing.end(body);
  });
}

async function readResponse(
  { url, secrets = [] }: HttpMessage,
  response: IncomingMessage,
): Promise<HttpResult> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    chunks.push(chunk as Buffer);
    size += (chunk as Buffer).length;
    // Enough: what it says about the notification is in its status.
    if (size > defaults.channelAnswerBytes) break;
  }
  const body = Buffer.concat(chunks).subarray(0, defaults.channelAnswerBytes).toString();
  const written = [...url.pathname.split("/"), ...url.search.split(/[?&=]/)];
  const parts = [...written, ...url.searchParams.values()].filter((part) => part.length >= MIN_SECRET_CHARS);
  const shown = redactSecrets(body, [...secrets, ...parts, ...parts.map(tryDecode)]).trim();
  return {
    status: response.statusCode ?? 0,
    body,
    excerpt: truncate(shown, defaults.channelExcerptChars),
    retryAfterMs: parseRetryAfter(response.headers["retry-after"], Date.now()),
  };
}

function filteredLookup(
  { url, rules }: HttpMessage,
  signal: AbortSignal,
  resolve: ResolveAddresses,
): LookupFunction {
  return (name, options, callback) => {
    const alone = lookupSlotsByName.get(name) ?? new Semaphore(1);
    lookupSlotsByName.set(name, alone);
    const ask = async (): Promise<readonly LookupAddress[]> => {
      // It may have been given up while it waited for others.
      signal.throwIfAborted();
      return resolve(name);
    };
    const asked = alone.run(() => lookupSlots.run(ask));
    asked.then(
      (found) => {
        const usable = found.filter(({ address }) => isAllowedAddress(address, rules["allow-networks"]));
        const [first] = usable;
        if (first === undefined) callback(forbiddenAddressError(url), []);
        else if (options.all === true) callback(null, usable);
        else callback(null, first.address, first.family);
      },
      (error: unknown) => callback(error as NodeJS.ErrnoException, []),
    );
  };
}

function forbiddenAddressError({ host }: URL): DeliveryFailed {
  return new DeliveryFailed(
    `${host} is no public address, and allow-networks does not name it; nothing was sent`,
  );
}

const ERROR_TEXTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nobody listens there",
  ECONNRESET: "it broke the connection off",
  ENOTFOUND: "there is no such name",
  EAI_AGAIN: "the name could not be looked up now",
  EHOSTUNREACH: "there is no way to it",
  ENETUNREACH: "there is no way to it",
};

/** By its code only: what the error itself says may repeat the address. */
function connectionError({ host }: URL, cause: unknown, resultUnknown: boolean): DeliveryFailed {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "no code";
  const certificate = /CERT|SELF_SIGNED|UNABLE_TO_/.test(code) ? "its certificate is not accepted" : null;
  const words = ERROR_TEXTS[code] ?? certificate ?? "the connection failed";
  return new DeliveryFailed(`${host} has not answered: ${words} (${code})`, { cause, resultUnknown });
}

function tryDecode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
