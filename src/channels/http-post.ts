import type { LookupAddress } from "node:dns";
import { lookup } from "node:dns/promises";
import { type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest, type RequestOptions } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { Semaphore } from "../async/concurrency.js";
import { isAllowedAddress } from "../config/network-addresses.js";
import type { HttpChannelOptions } from "../config/channels.js";
import { defaults } from "../defaults.js";
import { packageVersion } from "../home/package.js";
import { DeliveryFailed } from "../tasks/delivery-attempt.js";
import { truncate } from "../text/truncate.js";
import { redactSecrets } from "./secrets.js";

/** The delay in a Retry-After header (seconds or a date). Null: missing or invalid. */
export function parseRetryAfter(header: string | undefined, now: number): number | null {
  if (header === undefined) return null;
  const ms = /^\s*\d+\s*$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - now;
  return Number.isNaN(ms) ? null : boundRetryAfter(ms);
}

export function boundRetryAfter(ms: number): number {
  return Math.min(Math.max(ms, 0), defaults.channelRetryAfterMs);
}

interface HttpMessage {
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
  readonly rules: HttpChannelOptions;
  /** Redacted in messages, like the parts of the address. */
  readonly secrets?: readonly string[];
}

export interface HttpResult {
  readonly status: number;
  /** The part that was read. */
  readonly body: string;
  /** Its beginning, redacted and sanitized. */
  readonly excerpt: string;
  readonly retryAfterMs: number | null;
}

/** Resolves a host name to all its addresses. */
export type ResolveAddresses = (name: string) => Promise<readonly LookupAddress[]>;

/** A slow lookup blocks one of the four libuv threads, which also do file operations. */
const MAX_LOOKUPS = 2;
const lookupSlots = new Semaphore(MAX_LOOKUPS);
/** One lookup per name, so that a slow name leaves the other slot free. */
const lookupSlotsByName = new Map<string, Semaphore>();
const systemResolve: ResolveAddresses = (name) => lookup(name, { all: true });

/** Shorter parts of an address are words, not secrets. */
const MIN_SECRET_CHARS = 6;

/**
 * Sends one POST with JSON and reads the answer, within the timeout. Redirects are not followed. Only allowed addresses
 * are connected to: the checked address is the one used, so a second lookup cannot lead elsewhere.
 */
export async function postJson(
  message: HttpMessage,
  signal: AbortSignal,
  resolve: ResolveAddresses = systemResolve,
): Promise<HttpResult> {
  const { url, rules } = message;
  if (url.protocol !== "https:" && !rules["allow-http"])
    throw new DeliveryFailed(`the address at ${url.host} is not https, and allow-http is not set`);
  const literal = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(literal) !== 0 && !isAllowedAddress(literal, rules["allow-networks"]))
    throw forbiddenAddressError(url);
  const timeout = AbortSignal.timeout(rules["timeout-ms"]);
  let resultUnknown = false;
  try {
    const response = await sendRequest(
      message,
      AbortSignal.any([signal, timeout]),
      resolve,
      () => (resultUnknown = true),
    );
    const answer = await readResponse(message, response);
    if (answer.status >= 300 && answer.status < 400)
      throw new DeliveryFailed(
        `${url.host} answered with a redirect (${answer.status}), which is not followed`,
      );
    return answer;
  } catch (error) {
    if (error instanceof DeliveryFailed) throw error;
    if (signal.aborted) throw new DeliveryFailed(`sending to ${url.host} was aborted`, { resultUnknown });
    const why = `${url.host} did not complete its answer within ${rules["timeout-ms"]} ms`;
    if (timeout.aborted) throw new DeliveryFailed(why, { resultUnknown });
    throw connectionError(url, error, resultUnknown);
  }
}

/** The error for a status that is not a success. `permanent`: statuses for which a retry cannot succeed. */
export function rejectionError(
  { url }: HttpMessage,
  answer: HttpResult,
  permanent: readonly number[],
): DeliveryFailed {
  const detail = answer.excerpt === "" ? "" : `: ${answer.excerpt}`;
  return new DeliveryFailed(`${url.host} answered ${answer.status}${detail}`, {
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
    // Also if NODE_TLS_REJECT_UNAUTHORIZED is 0 in the environment.
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
    // Stays attached: a second error while the answer is read also rejects the answer itself.
    outgoing.on("error", reject);
    outgoing.once("finish", onSent);
    outgoing.once("response", answered);
    // The connection can close without an error, for example if the server speaks another protocol.
    outgoing.once("close", () => {
      const resultUnknown = outgoing.writableFinished;
      reject(new DeliveryFailed(`${url.host} closed the connection without an answer`, { resultUnknown }));
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
    // The status is enough to judge the delivery.
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
    const slot = lookupSlotsByName.get(name) ?? new Semaphore(1);
    lookupSlotsByName.set(name, slot);
    const query = async (): Promise<readonly LookupAddress[]> => {
      // The delivery may have been aborted while the lookup waited for a slot.
      signal.throwIfAborted();
      return resolve(name);
    };
    const found = slot.run(() => lookupSlots.run(query));
    found.then(
      (addresses) => {
        const usable = addresses.filter(({ address }) => isAllowedAddress(address, rules["allow-networks"]));
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
  return new DeliveryFailed(`${host} is not a public address and not in allow-networks; nothing was sent`);
}

const ERROR_TEXTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset",
  ENOTFOUND: "unknown host name",
  EAI_AGAIN: "the name cannot be resolved now",
  EHOSTUNREACH: "no route to the host",
  ENETUNREACH: "no route to the host",
};

/** Uses only the code: the message of the error may contain the address. */
function connectionError({ host }: URL, cause: unknown, resultUnknown: boolean): DeliveryFailed {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "no code";
  const certificate = /CERT|SELF_SIGNED|UNABLE_TO_/.test(code) ? "its certificate is not accepted" : null;
  const reason = ERROR_TEXTS[code] ?? certificate ?? "the connection failed";
  return new DeliveryFailed(`${host} did not answer: ${reason} (${code})`, { cause, resultUnknown });
}

function tryDecode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
