import type { LookupAddress } from "node:dns";
import { lookup } from "node:dns/promises";
import { request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest, type RequestOptions } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { packageVersion } from "../anchor/package-version.js";
import { Turnstile } from "../anchor/turnstile.js";
import { defaults } from "../defaults.js";
import { DeliveryFailed } from "../tasks/notification.js";
import { cut } from "../tasks/texts.js";
import type { Outgoing } from "./entry.js";
import { mayReach } from "./network.js";
import { retryAfterMs } from "./retry-after.js";
import { concealed } from "./secret.js";

export interface Letter {
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
  readonly rules: Outgoing;
  /** Not to be repeated in a message, beside the parts of the address. */
  readonly secrets?: readonly string[];
}

export interface Answer {
  readonly status: number;
  /** As much of it as is read at all. */
  readonly body: string;
  /** The beginning of it, fit to be shown. */
  readonly excerpt: string;
  readonly retryAfterMs: number | null;
}

/** Every address of a name. */
export type Resolve = (name: string) => Promise<readonly LookupAddress[]>;

/** A name that is not answered for holds one of the four threads that this process also has for its files. */
const LOOK_UPS = 2;
const lookUps = new Turnstile(LOOK_UPS);
/** By name: one of them at a time, so that it leaves the other thread to others. */
const names = new Map<string, Turnstile>();
const byTheSystem: Resolve = (name) => lookup(name, { all: true });

/** Short parts of an address are words, and no secrets. */
const SECRET_CHARS = 6;

/**
 * One POST with JSON, answered within a time and to an end. Follows no redirect, and connects only where the rules allow: the
 * addresses that were looked at are the ones that are connected to, so a name cannot change its mind in between.
 */
export async function post(
  letter: Letter,
  signal: AbortSignal,
  resolve: Resolve = byTheSystem,
): Promise<Answer> {
  const { url, rules } = letter;
  if (url.protocol !== "https:" && !rules["allow-http"])
    throw new DeliveryFailed(`${url.host} is not reached by https, and allow-http is not set`);
  const literal = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(literal) !== 0 && !mayReach(literal, rules["allow-networks"])) throw forbidden(url);
  const late = AbortSignal.timeout(rules["timeout-ms"]);
  let unheard = false;
  try {
    const response = await send(letter, AbortSignal.any([signal, late]), resolve, () => (unheard = true));
    const answer = await read(letter, response);
    if (answer.status >= 300 && answer.status < 400)
      throw new DeliveryFailed(`${url.host} redirects elsewhere (${answer.status}), which is not followed`);
    return answer;
  } catch (error) {
    if (error instanceof DeliveryFailed) throw error;
    if (signal.aborted) throw new DeliveryFailed(`sending to ${url.host} was given up`, { unheard });
    const why = `${url.host} did not answer to the end within ${rules["timeout-ms"]} ms`;
    if (late.aborted) throw new DeliveryFailed(why, { unheard });
    throw unanswered(url, error, unheard);
  }
}

/** A receiver that does not take it: `permanent` are the statuses that will not change by themselves. */
export function refused({ url }: Letter, answer: Answer, permanent: readonly number[]): DeliveryFailed {
  const words = answer.excerpt === "" ? "" : `: ${answer.excerpt}`;
  return new DeliveryFailed(`${url.host} answered ${answer.status}${words}`, {
    permanent: permanent.includes(answer.status),
    retryAfterMs: answer.retryAfterMs,
  });
}

export function isTaken({ status }: Answer): boolean {
  return status >= 200 && status < 300;
}

function send(
  letter: Letter,
  signal: AbortSignal,
  resolve: Resolve,
  onSent: () => void,
): Promise<IncomingMessage> {
  const { url, body } = letter;
  const options: RequestOptions = {
    method: "POST",
    agent: false,
    // Also where NODE_TLS_REJECT_UNAUTHORIZED is 0, for whatever else runs in that environment.
    rejectUnauthorized: true,
    signal,
    lookup: guarded(letter, signal, resolve),
    headers: {
      ...letter.headers,
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
      const unheard = outgoing.writableFinished;
      reject(new DeliveryFailed(`${url.host} has closed without an answer`, { unheard }));
    });
    outgoing.end(body);
  });
}

async function read({ url, secrets = [] }: Letter, response: IncomingMessage): Promise<Answer> {
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
  const parts = [...written, ...url.searchParams.values()].filter((part) => part.length >= SECRET_CHARS);
  const shown = concealed(body, [...secrets, ...parts, ...parts.map(decoded)]).trim();
  return {
    status: response.statusCode ?? 0,
    body,
    excerpt: cut(shown, defaults.channelExcerptChars),
    retryAfterMs: retryAfterMs(response.headers["retry-after"], Date.now()),
  };
}

function guarded({ url, rules }: Letter, signal: AbortSignal, resolve: Resolve): LookupFunction {
  return (name, options, callback) => {
    const alone = names.get(name) ?? new Turnstile(1);
    names.set(name, alone);
    const ask = async (): Promise<readonly LookupAddress[]> => {
      // It may have been given up while it waited for others.
      signal.throwIfAborted();
      return resolve(name);
    };
    const asked = alone.pass(() => lookUps.pass(ask));
    asked.then(
      (found) => {
        const usable = found.filter(({ address }) => mayReach(address, rules["allow-networks"]));
        const [first] = usable;
        if (first === undefined) callback(forbidden(url), []);
        else if (options.all === true) callback(null, usable);
        else callback(null, first.address, first.family);
      },
      (error: unknown) => callback(error as NodeJS.ErrnoException, []),
    );
  };
}

function forbidden({ host }: URL): DeliveryFailed {
  return new DeliveryFailed(
    `${host} is no public address, and allow-networks does not name it; nothing was sent`,
  );
}

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nobody listens there",
  ECONNRESET: "it broke the connection off",
  ENOTFOUND: "there is no such name",
  EAI_AGAIN: "the name could not be looked up now",
  EHOSTUNREACH: "there is no way to it",
  ENETUNREACH: "there is no way to it",
};

/** By its code only: what the error itself says may repeat the address. */
function unanswered({ host }: URL, cause: unknown, unheard: boolean): DeliveryFailed {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "no code";
  const certificate = /CERT|SELF_SIGNED|UNABLE_TO_/.test(code) ? "its certificate is not accepted" : null;
  const words = WORDS[code] ?? certificate ?? "the connection failed";
  return new DeliveryFailed(`${host} has not answered: ${words} (${code})`, { cause, unheard });
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
