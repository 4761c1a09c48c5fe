import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { GatewayUnreachable, HoldfastError } from "../errors.js";
import { ProvenAgent, sendProven, type GatewayAddress } from "./proven-connection.js";
import { GatewayError, type ErrorResponse } from "./error-response.js";

/**
 * Yields the objects of a stream with one JSON object per line. Returns whether the gateway ended the stream; false if the
 * connection broke.
 */
export async function* followNdjson<Line>(
  address: GatewayAddress,
  path: string,
): AsyncGenerator<Line, boolean, undefined> {
  const { socketPath } = address;
  const request = httpRequest({ agent: new ProvenAgent(address), socketPath, path });
  sendProven(request);
  try {
    const [response] = (await once(request, "response").catch((cause: unknown) => {
      if (cause instanceof HoldfastError) throw cause;
      throw new GatewayUnreachable(`no gateway listens on ${socketPath}`, { cause });
    })) as [IncomingMessage];
    if (response.statusCode !== 200)
      throw new GatewayError((JSON.parse(await text(response)) as ErrorResponse).error);
    // A disconnect of the caller is not an error.
    response.on("error", () => undefined);
    const lines = createInterface({ input: response });
    lines.on("error", () => undefined);
    const each = lines[Symbol.asyncIterator]();
    for (;;) {
      // One that breaks off ends it: there is nothing more to be heard. It may do so in the middle of a line.
      const next = await each.next().catch(() => null);
      const line = next === null || next.done === true ? null : parseLine(next.value);
      if (line === null) return response.complete;
      yield line.value as Line;
    }
  } finally {
    request.on("error", () => undefined).destroy();
  }
}

function parseLine(line: string): { readonly value: unknown } | null {
  try {
    return { value: JSON.parse(line) };
  } catch {
    return null;
  }
}
