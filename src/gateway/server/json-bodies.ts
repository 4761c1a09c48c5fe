import type { IncomingMessage, ServerResponse } from "node:http";
import { defaults } from "../../defaults.js";
import { BadInput, TooLarge } from "../../errors.js";
import type { CountedRequest } from "./admission-control.js";

/** The JSON body of a request; `{}` if it is empty. The request is not destroyed when it is too large, so that the error can be sent. */
export async function readJson(request: IncomingMessage, counted: CountedRequest): Promise<unknown> {
  const body = await readBody(request, counted);
  if (body.length === 0) return {};
  try {
    return JSON.parse(body.toString("utf8")) as unknown;
  } catch (error) {
    throw new BadInput("body", `the body is not JSON (${(error as Error).message}); nothing was done`);
  }
}

/** Reads the body with listeners: an async iterator costs more than the rest of a request with one chunk. */
export function readBody(request: IncomingMessage, counted: CountedRequest): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    const settle = (): void => {
      request.off("data", onData).off("end", onEnd).off("error", fail).off("close", onClose);
    };
    const fail = (error: Error): void => {
      settle();
      request.pause();
      reject(error);
    };
    const onEnd = (): void => {
      settle();
      const [first] = parts;
      resolve(parts.length === 1 && first !== undefined ? first : Buffer.concat(parts));
    };
    const onClose = (): void => fail(new Error("the connection was closed before the whole body arrived"));
    const onData = (part: Buffer): void => {
      size += part.length;
      if (size > defaults.requestBytes) return fail(new TooLarge(defaults.requestBytes));
      try {
        counted.countBody(part.length);
      } catch (error) {
        return fail(error as Error);
      }
      parts.push(part);
    };
    if (request.errored !== null || request.destroyed) return fail(request.errored ?? new Error("aborted"));
    request.on("data", onData).on("end", onEnd).on("error", fail).on("close", onClose);
  });
}

/** Sends JSON and returns its size. The body is a string, so that Node sends head and body in one write. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): number {
  const text = JSON.stringify(body);
  const length = Buffer.byteLength(text);
  response.writeHead(status, {
    ...headers,
    "content-type": "application/json",
    "content-length": length,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  response.end(text);
  return length;
}
