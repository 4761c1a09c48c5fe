import { execFileSync } from "node:child_process";
import type { LookupAddress } from "node:dns";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { deferred } from "../../src/async/deferred.js";
import {
  type HttpResult,
  parseRetryAfter,
  postJson,
  type ResolveAddresses,
} from "../../src/channels/http-post.js";
import { defaults } from "../../src/defaults.js";
import {
  channelEntry,
  deliveryFailure,
  NEVER_ABORTED,
  startHttpReceiver,
  startRawReceiver,
} from "../support/http-receiver.js";

const SECRET = "s3cr3t-path";

/** Posts to a receiver on loopback. */
function send(
  url: string,
  fields: Readonly<Record<string, unknown>> = {},
  signal: AbortSignal = NEVER_ABORTED,
  resolve?: ResolveAddresses,
): Promise<HttpResult> {
  const rules = channelEntry("webhook", {
    url: "https://example.com/",
    secrets: [{ env: "X" }],
    "timeout-ms": 20_000,
    ...fields,
  });
  const message = { url: new URL(url), body: "{}", rules };
  return resolve === undefined ? postJson(message, signal) : postJson(message, signal, resolve);
}

const SHORT = { "timeout-ms": 200 };

/** Writes again and again until the connection is closed. */
function repeat(socket: Socket, text: string): void {
  const timer = setInterval(() => socket.write(text), 20);
  socket.once("close", () => clearInterval(timer));
}

/** Writes as fast as the connection takes it. Returns the number of bytes written so far. */
function flood(socket: Socket, chunk: string): () => number {
  let bytes = 0;
  const more = (): void => {
    while (!socket.destroyed && socket.write(chunk)) bytes += chunk.length;
  };
  socket.on("drain", more);
  more();
  return () => bytes;
}

const TIMED_OUT = /^127\.0\.0\.1:\d+ did not complete its answer within 200 ms$/;

test.each<[string, (socket: Socket) => unknown, RegExp]>([
  ["does not answer", () => undefined, TIMED_OUT],
  [
    "answers a byte at a time",
    (socket) => {
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      repeat(socket, "1\r\nx\r\n");
    },
    TIMED_OUT,
  ],
  ["sends interim answers", (socket) => repeat(socket, "HTTP/1.1 102 Processing\r\n\r\n"), TIMED_OUT],
  [
    "closes during its answer",
    (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this"),
    / did not answer: connection reset \(ECONNRESET\)$/,
  ],
  ["closes before its answer", (socket) => socket.end(), /connection reset/],
  [
    "speaks another protocol",
    (socket) => socket.end("SSH-2.0-OpenSSH\r\n"),
    / did not answer: the connection failed \(HPE_/,
  ],
  [
    "sends endless headers",
    (socket) => {
      socket.write("HTTP/1.1 200 OK\r\n");
      flood(socket, `x-${"y".repeat(1_000)}: z\r\n`);
    },
    /\(HPE_HEADER_OVERFLOW\)/,
  ],
  [
    "switches protocols",
    (socket) =>
      socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n"),
    /^127\.0\.0\.1:\d+ closed the connection without an answer$/,
  ],
])("a receiver that %s has failed, and can be retried", async (_, answer, message) => {
  const url = await startRawReceiver((socket) => void answer(socket));
  const timeout = message === TIMED_OUT ? SHORT : { "timeout-ms": 2_000 };
  const failure = await deliveryFailure(send(`${url}/${SECRET}`, timeout));
  expect(failure.message).toMatch(message);
  expect(failure.permanent).toBe(false);
});

test("a receiver that refuses the connection has failed, and can be retried", async () => {
  const failure = await deliveryFailure(send(`http://127.0.0.1:1/${SECRET}`));
  expect(failure.message).toBe("127.0.0.1:1 did not answer: connection refused (ECONNREFUSED)");
  expect(failure.permanent).toBe(false);
});

test("a redirect is not followed", async () => {
  const elsewhere = await startHttpReceiver();
  for (const status of [301, 302, 303, 307, 308]) {
    const { url } = await startHttpReceiver((_, response) =>
      response.writeHead(status, { location: `${elsewhere.url}/${SECRET}` }).end(),
    );
    const failure = await deliveryFailure(send(url));
    expect(failure.message).toMatch(
      new RegExp(`^127\\.0\\.0\\.1:\\d+ answered with a redirect \\(${status}\\), which is not followed$`),
    );
    expect(failure.permanent).toBe(false);
  }
  expect(elsewhere.received).toEqual([]);
});

test("an endless answer is read up to the limit, and its status counts", async () => {
  let written = (): number => 0;
  const url = await startRawReceiver((socket) => {
    socket.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n");
    written = flood(socket, "x".repeat(64 * 1024));
  });
  const answer = await send(url);
  expect(answer.status).toBe(200);
  expect(answer.body).toHaveLength(defaults.channelAnswerBytes);
  expect(answer.excerpt.length).toBeLessThanOrEqual(defaults.channelExcerptChars);
  expect(written()).toBeLessThan(100_000_000);
});

test("an aborted attempt fails at once", async () => {
  const giveUp = new AbortController();
  const url = await startRawReceiver(() => giveUp.abort());
  const failure = await deliveryFailure(send(url, {}, giveUp.signal));
  expect(failure.message).toMatch(/^sending to 127\.0\.0\.1:\d+ was aborted$/);
});

test.each([
  ...[
    "127.0.0.1",
    "2130706433",
    "0x7f.1",
    "[::ffff:127.0.0.1]",
    "[::1]",
    "[64:ff9b::7f00:1]",
    "localhost",
  ].map(
    (host) => [host, { "allow-networks": [] }, "is not a public address and not in allow-networks"] as const,
  ),
  ["127.0.0.1", { "allow-http": false }, "is not https, and allow-http is not set"] as const,
])("nothing is sent to %s with %o, and the delivery can be retried", async (host, rules, message) => {
  const { url, received } = await startHttpReceiver();
  const failure = await deliveryFailure(send(`http://${host}:${new URL(url).port}/${SECRET}`, rules));
  expect(failure.message).toContain(message);
  expect(failure.message).not.toContain(SECRET);
  expect(failure.permanent).toBe(false);
  expect(received).toEqual([]);
});

/** A name server: each lookup gets the next answer. */
function resolving(...answers: readonly (readonly string[])[]): {
  resolve: ResolveAddresses;
  asked: string[];
} {
  const asked: string[] = [];
  const resolve: ResolveAddresses = async (name) => {
    const found = answers[Math.min(asked.length, answers.length - 1)] ?? [];
    asked.push(name);
    return found.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  };
  return { resolve, asked };
}

describe("a name that", () => {
  test("resolves differently later is resolved only once", async () => {
    const { url, received } = await startHttpReceiver();
    const { resolve, asked } = resolving(["127.0.0.1"], ["169.254.169.254"]);
    const answer = await send(`http://rebound.example:${new URL(url).port}/`, {}, NEVER_ABORTED, resolve);
    expect(answer.status).toBe(200);
    expect(asked).toEqual(["rebound.example"]);
    expect(received[0]?.headers.host).toMatch(/^rebound\.example:/);
  });

  test("has some forbidden addresses is reached by the others only", async () => {
    const { url, received } = await startHttpReceiver();
    const { resolve } = resolving(["127.0.0.2", "10.255.255.1", "::1", "127.0.0.1"]);
    const only = { "allow-networks": ["127.0.0.1"] };
    const address = `http://mixed.example:${new URL(url).port}/`;
    await send(address, only, NEVER_ABORTED, resolve);
    expect(received).toHaveLength(1);
    const forbidden = resolving(["10.255.255.1", "::ffff:127.0.0.1"]);
    const none = send(address, { "allow-networks": [] }, NEVER_ABORTED, forbidden.resolve);
    const failure = await deliveryFailure(none);
    expect(failure.message).toContain("is not a public address");
    expect(received).toHaveLength(1);
  });
});

test("slow names block at most two threads, and no delivery beyond its timeout", async () => {
  const answer = deferred<readonly LookupAddress[]>();
  const asked: string[] = [];
  const silent: ResolveAddresses = (name) => {
    asked.push(name);
    return answer.promise;
  };
  const names = ["a", "b", "c", "d", "e"].map((name) => `http://${name}.example/`);
  const failures = await Promise.all(
    names.map((url) => deliveryFailure(send(url, SHORT, NEVER_ABORTED, silent))),
  );
  expect(failures.map(({ message }) => message)).toEqual(
    names.map((url) => `${new URL(url).host} did not complete its answer within 200 ms`),
  );
  expect(asked).toEqual(["a.example", "b.example"]);
  answer.resolve([]);
  // Aborted lookups are dropped, and a new one runs.
  const { url } = await startHttpReceiver();
  const { resolve } = resolving(["127.0.0.1"]);
  expect((await send(`http://f.example:${new URL(url).port}/`, {}, NEVER_ABORTED, resolve)).status).toBe(200);
  expect(asked).toHaveLength(2);
});

test("a slow name blocks only its own deliveries", async () => {
  const answer = deferred<readonly LookupAddress[]>();
  const hanging = ["a", "b", "c"].map((path) =>
    deliveryFailure(send(`http://hangs.example/${path}`, {}, NEVER_ABORTED, () => answer.promise)),
  );
  const { url } = await startHttpReceiver();
  const { resolve } = resolving(["127.0.0.1"]);
  expect((await send(`http://lives.example:${new URL(url).port}/`, {}, NEVER_ABORTED, resolve)).status).toBe(
    200,
  );
  answer.resolve([]);
  await Promise.all(hanging);
});

test("an untrusted certificate is refused in any environment", async () => {
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  // Node warns of the variable.
  const warned = vi.spyOn(process, "emitWarning").mockReturnValue();
  onTestFinished(() => {
    vi.unstubAllEnvs();
    warned.mockRestore();
  });
  const directory = await mkdtemp(join(tmpdir(), "hf-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const [key, cert] = [join(directory, "key"), join(directory, "cert")];
  const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  execFileSync("openssl", [...made, "-subj", "/CN=localhost", "-keyout", key, "-out", cert], {
    stdio: "ignore",
  });
  let asked = 0;
  const server = createServer({ key: await readFile(key), cert: await readFile(cert) }, (_, response) => {
    asked += 1;
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const failure = await deliveryFailure(send(`https://127.0.0.1:${(server.address() as AddressInfo).port}/`));
  expect(failure.message).toMatch(/ did not answer: its certificate is not accepted \([A-Z_]+\)$/);
  expect(asked).toBe(0);
});

test("an answer that repeats the address is redacted and sanitized", async () => {
  const { url } = await startHttpReceiver((request, response) =>
    response.writeHead(404).end(`Cannot POST ${request.url} \u001b[2J`),
  );
  const { excerpt } = await send(`${url}/hooks/${SECRET}/deeper%20still?key=${SECRET}`);
  expect(excerpt).toBe("Cannot POST /hooks/***/***?key=***");
  const { excerpt: bare } = await send(`${url}/hooks?${SECRET}&key=a%2Fsecret%3D`);
  expect(bare).toBe("Cannot POST /hooks?***&key=***");
});

test("a secret that is repeated with an escape sequence inside is redacted", async () => {
  const text = "s3cr3t\u001b[0m-path, and s3cr3t-path";
  const { url } = await startHttpReceiver((_, response) => response.end(text));
  expect((await send(`${url}/${SECRET}`)).excerpt).toBe("***, and ***");
});

test("Retry-After is parsed as seconds or a date, and bounded", () => {
  const now = Date.UTC(2026, 0, 1);
  expect(parseRetryAfter(undefined, now)).toBeNull();
  expect(parseRetryAfter("120", now)).toBe(120_000);
  expect(parseRetryAfter("Thu, 01 Jan 2026 00:01:00 GMT", now)).toBe(60_000);
  expect(parseRetryAfter("Thu, 01 Jan 2015 00:01:00 GMT", now)).toBe(0);
  expect(parseRetryAfter("soon", now)).toBeNull();
  expect(parseRetryAfter("9".repeat(400), now)).toBe(defaults.channelRetryAfterMs);
});
