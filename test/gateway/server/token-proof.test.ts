import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, request } from "node:http";
import { connect, createServer as createNetServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { createClient, followNdjson } from "../../../src/api/client.js";
import {
  CHALLENGE_PATH,
  clientProof,
  gatewayProof,
  isGatewayProof,
  newNonce,
  tokenIdFromHash,
} from "../../../src/api/token-proof.js";
import { openAttachSocket } from "../../../src/cli/client/attach-socket.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { hashSessionToken, newSessionToken } from "../../../src/sessions/tokens.js";
import { errorOf, gatewayForFile } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile();

/** The bytes sent to a process that listens in a gateway's place. */
interface Impostor {
  readonly home: string;
  readonly received: () => string;
}

async function listenInPlace(server: Server): Promise<Impostor> {
  const home = await mkdtemp(join(tmpdir(), "hf-"));
  let received = "";
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.on("data", (part) => (received += part.toString("latin1")));
    socket.on("error", () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(gatewaySocketPath(home), resolve));
  onTestFinished(async () => {
    for (const socket of open) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
    await rm(home, { recursive: true });
  });
  return { home, received: () => received };
}

/** The request of a challenge, and not one byte more. */
const ONLY_THE_CHALLENGE =
  /^GET \/v1\/challenge HTTP\/1\.1\r\nhost: gateway\r\nholdfast-token-id: [0-9a-f]{16}\r\nholdfast-nonce: [\w-]{43}\r\n\r\n$/;

/** `body`: the body, or a function that makes it from the client's nonce. */
function answering(status: number, body: object | ((nonce: string) => object)): Server {
  return createServer(({ headers }, response) => {
    const said = JSON.stringify(typeof body === "function" ? body(String(headers["holdfast-nonce"])) : body);
    response.writeHead(status, { "content-length": Buffer.byteLength(said) }).end(said);
  });
}

describe("a process that listens in the gateway's place without the token", () => {
  const ready = { ready: true, pid: 1, instanceId: "x", runs: 0, home: "/" };
  const token = newSessionToken();
  const stranger = hashSessionToken(newSessionToken());
  const nonces = { client: newNonce(), gateway: newNonce() };
  const cases: readonly (readonly [string, () => Server, string])[] = [
    ["answers as a gateway that is ready", () => answering(200, ready), "GATEWAY_NOT_PROVEN"],
    [
      "proves that it knows another token",
      () =>
        answering(200, (client) => ({
          nonce: nonces.gateway,
          proof: gatewayProof(stranger, { client, gateway: nonces.gateway }),
        })),
      "GATEWAY_NOT_PROVEN",
    ],
    [
      "repeats a proof of another connection",
      () => answering(200, { nonce: nonces.gateway, proof: gatewayProof(hashSessionToken(token), nonces) }),
      "GATEWAY_NOT_PROVEN",
    ],
    [
      "sends the client's own nonce back as the proof",
      () => answering(200, (nonce) => ({ nonce, proof: nonce })),
      "GATEWAY_NOT_PROVEN",
    ],
    [
      "says nothing that is HTTP",
      () => createNetServer((socket) => socket.write("SSH-2.0-x\r\n\r\n")),
      "GATEWAY_NOT_PROVEN",
    ],
    [
      "never stops talking",
      () => createNetServer((socket) => void socket.write("x".repeat(64 * 1024))),
      "GATEWAY_NOT_PROVEN",
    ],
    ["hangs up", () => createNetServer((socket) => void socket.destroy()), "GATEWAY_UNREACHABLE"],
    [
      "asks for the token in clear",
      () => answering(401, { error: { code: "UNAUTHORIZED", message: "say it" } }),
      "UNAUTHORIZED",
    ],
  ];

  test.each(cases)("%s: it gets a nonce and nothing else", async (_, serve, code) => {
    const impostor = await listenInPlace(serve());
    const address = { socketPath: gatewaySocketPath(impostor.home), token };
    const client = createClient(address);
    const body = { argv: ["echo", "argument-secret"], environment: { X: "environment-secret" } };
    expect((await errorOf(client.exec({ body }))).code).toBe(code);
    // One that talks or hangs up at once may have been left before it read the challenge.
    if (impostor.received() !== "") expect(impostor.received()).toMatch(ONLY_THE_CHALLENGE);
    expect(impostor.received()).not.toContain(token);
    expect(impostor.received()).not.toContain(hashSessionToken(token));
    expect(impostor.received()).not.toContain("secret");
  });

  test("a follower of events and an attached terminal send nothing else either", async () => {
    const impostor = await listenInPlace(answering(200, ready));
    const address = { socketPath: gatewaySocketPath(impostor.home), token };
    expect((await errorOf(followNdjson(address, "/v1/events?follow=1").next())).code).toBe(
      "GATEWAY_NOT_PROVEN",
    );
    const failed = await new Promise<Error>((resolve) => {
      const channel = openAttachSocket({ home: impostor.home, token }, "run_secret", {}, (error) => {
        channel.terminate();
        resolve(error);
      });
    });
    expect(failed).toMatchObject({ code: "GATEWAY_NOT_PROVEN" });
    const [first, second, ...more] = impostor.received().split(/(?<=\r\n\r\n)/);
    expect([first, second, more]).toEqual([
      expect.stringMatching(ONLY_THE_CHALLENGE),
      expect.stringMatching(ONLY_THE_CHALLENGE),
      [],
    ]);
  });

  test("a gateway that does not know the operator's token is not accepted", async () => {
    const impostor = await listenInPlace(
      answering(401, { error: { code: "UNAUTHORIZED", message: "say it" } }),
    );
    const operator = createClient({
      socketPath: gatewaySocketPath(impostor.home),
      token: fixture.token,
    });
    expect((await errorOf(operator.status())).code).toBe("GATEWAY_NOT_PROVEN");
    expect(impostor.received()).toMatch(ONLY_THE_CHALLENGE);
  });
});

interface Said {
  readonly status: number;
  readonly body: { readonly nonce?: string; readonly proof?: string; readonly instanceId?: string };
}

/** Requests over one connection, as made by hand. */
async function byHand(socket: Socket, path: string, headers: Record<string, string>): Promise<Said> {
  const asking = request({
    createConnection: () => socket,
    path,
    headers: { ...headers, connection: "keep-alive" },
  });
  asking.end();
  const [response] = (await once(asking, "response")) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: JSON.parse(await text(response)) as Said["body"] };
}

describe("a client without the token", () => {
  let sockets: Socket[];
  beforeEach(() => {
    sockets = [];
  });
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
  });
  const dial = (): Socket => {
    const socket = connect(fixture.socketPath);
    sockets.push(socket);
    return socket;
  };
  const challenge = async (socket: Socket, hash: string, client = newNonce()) => {
    const { status, body } = await byHand(socket, CHALLENGE_PATH, {
      "holdfast-token-id": tokenIdFromHash(hash),
      "holdfast-nonce": client,
    });
    return { status, nonces: { client, gateway: body.nonce ?? "" }, proof: body.proof };
  };
  const status = (socket: Socket, proof: string): Promise<Said> =>
    byHand(socket, "/v1/gateway", { authorization: `Holdfast ${proof}` });

  test("is refused with a proof of another token, and with one of the hash alone", async () => {
    const hash = hashSessionToken(fixture.token);
    const socket = dial();
    const { nonces, proof } = await challenge(socket, hash);
    expect(isGatewayProof(proof, hash, nonces)).toBe(true);
    expect((await status(socket, clientProof(newSessionToken(), hash, nonces))).status).toBe(401);
    expect((await status(socket, clientProof(hash, hash, nonces))).status).toBe(401);
    expect((await status(socket, String(proof))).status).toBe(401);
    expect((await status(socket, "")).status).toBe(401);
    expect((await status(socket, clientProof(fixture.token, hash, nonces))).status).toBe(200);
  });

  test("cannot use a proof on another connection, nor after another challenge", async () => {
    const hash = hashSessionToken(fixture.token);
    const first = dial();
    const { nonces } = await challenge(first, hash);
    const proof = clientProof(fixture.token, hash, nonces);
    expect((await status(first, proof)).status).toBe(200);
    expect((await status(dial(), proof)).status).toBe(401);
    const second = dial();
    await challenge(second, hash, nonces.client);
    expect((await status(second, proof)).status).toBe(401);
    await challenge(first, hash, nonces.client);
    expect((await status(first, proof)).status).toBe(401);
  });

  test("has no use of a proof that this connection accepted, once its token is rotated or has expired", async () => {
    const body = { key: "cached", tokenTtlMs: 1_500 };
    const { token: short, session } = await fixture.client.openSession({ body });
    const { token: rotated } = await fixture.client.openSession({ body: { key: "cached" } });
    const proven = await Promise.all(
      [short, rotated, fixture.token].map(async (token) => {
        const [socket, hash] = [dial(), hashSessionToken(token)];
        const { nonces } = await challenge(socket, hash);
        return { socket, proof: clientProof(token, hash, nonces) };
      }),
    );
    const statuses = async (): Promise<readonly number[]> => {
      const answers: number[] = [];
      for (const { socket, proof } of proven) answers.push((await askOwn(socket, proof)).status);
      return answers;
    };
    const askOwn = (socket: Socket, proof: string): Promise<Said> =>
      byHand(socket, `/v1/sessions/${session.id}`, { authorization: `Holdfast ${proof}` });
    expect(await statuses()).toEqual([200, 200, 200]);
    await waitFor("the first has expired", async () => (await statuses())[0] === 401);
    expect(await statuses()).toEqual([401, 200, 200]);
    await fixture.client.rotateToken({ params: { id: session.id }, body: {} });
    expect(await statuses()).toEqual([401, 401, 200]);
    await fixture.client.closeSession({ params: { id: session.id } });
  });

  test("gets no proof for a token that does not exist, or was revoked", async () => {
    const hash = hashSessionToken(newSessionToken());
    expect(await challenge(dial(), hash)).toMatchObject({ status: 401, proof: undefined });
    const { token, session } = await fixture.client.openSession({ body: { key: "short" } });
    expect((await challenge(dial(), hashSessionToken(token))).status).toBe(200);
    await fixture.client.closeSession({ params: { id: session.id } });
    expect((await challenge(dial(), hashSessionToken(token))).status).toBe(401);
    expect((await fixture.raw("GET", CHALLENGE_PATH, { token: null })).status).toBe(400);
  });
});

test("a session is authenticated by its token's proof until it is closed, also on an open connection", async () => {
  const { token, session } = await fixture.client.openSession({ body: { key: "proven" } });
  const own = fixture.as(token);
  expect((await own.sessionStatus({ params: { id: session.id } })).session.id).toBe(session.id);
  await fixture.client.closeSession({ params: { id: session.id } });
  expect((await errorOf(own.sessionStatus({ params: { id: session.id } }))).code).toBe("UNAUTHORIZED");
});

test("the proof costs one request per connection, not per request, and the token is never sent", async () => {
  const seen: string[] = [];
  const relay = createNetServer((socket) => {
    const gateway = connect(fixture.socketPath);
    socket.on("data", (part) => seen.push(part.toString("latin1")));
    socket.pipe(gateway).pipe(socket);
    for (const end of [socket, gateway]) end.on("error", () => undefined);
    socket.on("close", () => gateway.destroy());
  });
  const { home } = await listenInPlace(relay);
  const client = createClient({ socketPath: gatewaySocketPath(home), token: fixture.token });
  for (let count = 0; count < 5; count++) await client.status();
  const sent = seen.join("");
  expect(sent.match(/GET \/v1\/challenge/g)).toHaveLength(1);
  expect(sent.match(/GET \/v1\/gateway/g)).toHaveLength(5);
  expect(sent).not.toContain(fixture.token);
  expect(sent).not.toContain("Bearer");
});

test("a bearer token is still accepted, for clients that are not ours", async () => {
  expect((await fixture.raw("GET", "/v1/gateway")).status).toBe(200);
  expect((await fixture.raw("GET", "/v1/gateway", { token: newSessionToken() })).status).toBe(401);
});

test("an aborted request closes its unproven connection", async () => {
  const closed = vi.fn();
  const impostor = await listenInPlace(createNetServer((socket) => void socket.on("close", closed)));
  const client = createClient({ socketPath: gatewaySocketPath(impostor.home), token: newSessionToken() });
  await expect(client.status({}, AbortSignal.timeout(50))).rejects.toThrow();
  await vi.waitFor(() => expect(closed).toHaveBeenCalled(), { timeout: 15_000 });
});
