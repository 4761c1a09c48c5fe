import { execFileSync } from "node:child_process";
import type { LookupAddress } from "node:dns";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
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

/** To a place on loopback, with little patience. */
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
  const letter = { url: new URL(url), body: "{}", rules };
  return resolve === undefined ? postJson(letter, signal) : postJson(letter, signal, resolve);
}

const SHORT = { "timeout-ms": 200 };

describe("a receiver that", () => {
  test("hangs is given up in time and can be retried", async () => {
    const url = await startRawReceiver(() => undefined);
    const failure = await deliveryFailure(send(`${url}/${SECRET}`, SHORT));
    expect(failure.message).toMatch(/^127\.0\.0\.1:\d+ did not complete its answer within 200 ms$/);
    expect(failure.permanent).toBe(false);
  });

  test("refuses the connection is reported and can be retried", async () => {
    const failure = await deliveryFailure(send(`http://127.0.0.1:1/${SECRET}`));
    expect(failure.message).toBe("127.0.0.1:1 did not answer: connection refused (ECONNREFUSED)");
    expect(failure.permanent).toBe(false);
  });

  test("redirects is not followed", async () => {
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

  test("closes during its answer has not answered", async () => {
    const url = await startRawReceiver((socket) =>
      socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this"),
    );
    const failure = await deliveryFailure(send(url));
    expect(failure.message).toMatch(/ did not answer: connection reset \(ECONNRESET\)$/);
    expect(failure.permanent).toBe(false);
  });

  test("closes before its answer, or speaks another protocol, has not answered", async () => {
    const silent = await startRawReceiver((socket) => socket.end());
    expect((await deliveryFailure(send(silent))).message).toContain("connection reset");
    const other = await startRawReceiver((socket) => socket.end("SSH-2.0-OpenSSH\r\n"));
    expect((await deliveryFailure(send(other))).message).toMatch(
      / did not answer: the connection failed \(HPE_/,
    );
  });

  test("answers endlessly is read up to the limit, and its status counts", async () => {
    const sent = { bytes: 0 };
    const url = await startRawReceiver((socket) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n");
      const chunk = Buffer.alloc(64 * 1024, "x");
      const flood = (): void => {
        while (!socket.destroyed && socket.write(chunk)) sent.bytes += chunk.length;
      };
      socket.on("drain", flood);
      flood();
    });
    const answer = await send(url);
    expect(answer.status).toBe(200);
    expect(answer.body).toHaveLength(defaults.channelAnswerBytes);
    expect(answer.excerpt.length).toBeLessThanOrEqual(defaults.channelExcerptChars);
    expect(sent.bytes).toBeLessThan(100_000_000);
  });

  test("answers a byte at a time is given up in time", async () => {
    const url = await startRawReceiver((socket) => {
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      const drip = setInterval(() => socket.write("1\r\nx\r\n"), 20);
      socket.once("close", () => clearInterval(drip));
    });
    expect((await deliveryFailure(send(url, SHORT))).message).toContain(
      "did not complete its answer within 200 ms",
    );
  });

  test("sends endless headers or interim answers is given up", async () => {
    const header = await startRawReceiver((socket) => {
      socket.write("HTTP/1.1 200 OK\r\n");
      const more = (): void => {
        while (!socket.destroyed && socket.write(`x-${"y".repeat(1_000)}: z\r\n`));
      };
      socket.on("drain", more);
      more();
    });
    expect((await deliveryFailure(send(header))).message).toContain("(HPE_HEADER_OVERFLOW)");
    const soon = await startRawReceiver((socket) => {
      const again = setInterval(() => socket.write("HTTP/1.1 102 Processing\r\n\r\n"), 20);
      socket.once("close", () => clearInterval(again));
    });
    expect((await deliveryFailure(send(soon, SHORT))).message).toContain("within 200 ms");
  });
});

test("a receiver that switches protocols has not answered", async () => {
  const url = await startRawReceiver((socket) =>
    socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n"),
  );
  const failure = await deliveryFailure(send(url, { "timeout-ms": 2_000 }));
  expect(failure.message).toMatch(/^127\.0\.0\.1:\d+ closed the connection without an answer$/);
  expect(failure.permanent).toBe(false);
});

test("an aborted attempt fails at once", async () => {
  const giveUp = new AbortController();
  const url = await startRawReceiver(() => giveUp.abort());
  const failure = await deliveryFailure(send(url, {}, giveUp.signal));
  expect(failure.message).toMatch(/^sending to 127\.0\.0\.1:\d+ was aborted$/);
});

describe("an address that is not allowed is not connected to, and can be allowed later:", () => {
  const none = { "allow-networks": [] };

  test("an address that is not public, in any notation", async () => {
    const { url, received } = await startHttpReceiver();
    const { port } = new URL(url);
    for (const host of [
      "127.0.0.1",
      "2130706433",
      "0x7f.1",
      "[::ffff:127.0.0.1]",
      "[::1]",
      "[64:ff9b::7f00:1]",
    ]) {
      const failure = await deliveryFailure(send(`http://${host}:${port}/${SECRET}`, none));
      expect(failure.message).toContain("is not a public address and not in allow-networks");
      expect(failure.message).not.toContain(SECRET);
      expect(failure.permanent).toBe(false);
    }
    expect(received).toEqual([]);
  });

  test("a name that resolves to one", async () => {
    const { url, received } = await startHttpReceiver();
    const failure = await deliveryFailure(send(`http://localhost:${new URL(url).port}/`, none));
    expect(failure.message).toContain("is not a public address");
    expect(failure.permanent).toBe(false);
    expect(received).toEqual([]);
  });

  test("unencrypted", async () => {
    const { url, received } = await startHttpReceiver();
    const failure = await deliveryFailure(send(url, { "allow-http": false }));
    expect(failure.message).toContain("is not https, and allow-http is not set");
    expect(failure.permanent).toBe(false);
    expect(received).toEqual([]);
  });
});

/** A name server of one's own: each look-up gets the next answer. */
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
    await send(`http://mixed.example:${new URL(url).port}/`, only, NEVER_ABORTED, resolve);
    expect(received).toHaveLength(1);
    const forbidden = resolving(["10.255.255.1", "::ffff:127.0.0.1"]);
    const failure = await deliveryFailure(
      send(
        `http://mixed.example:${new URL(url).port}/`,
        { "allow-networks": [] },
        NEVER_ABORTED,
        forbidden.resolve,
      ),
    );
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
  // Node warns of it, rightly elsewhere.
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
  const { url } = await startHttpReceiver((_, response) =>
    response.end("s3cr3t\u001b[0m-path, and s3cr3t-path"),
  );
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
