import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { request as requestOverTls } from "node:https";
import { type AddressInfo, connect, createServer } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createClient } from "../../../src/api/client.js";
import { derivePeerKey } from "../../../src/gateway/peers/peer.js";
import {
  type ClusterGateway,
  GatewayCluster,
  RunViewer,
  startRun,
} from "../../support/gateway/gateway-cluster.js";
import { errorOf } from "../../support/gateway/real-gateway.js";
import { whyNoPostgres } from "../../support/store/postgres-server.js";

const LONG = { timeout: 240_000 };

interface Answer {
  readonly status: number;
  readonly code: string;
}

describe.skipIf(whyNoPostgres !== null)("between gateways", LONG, () => {
  let cluster: GatewayCluster;
  let here: ClusterGateway;
  let there: ClusterGateway;
  let runId: string;
  beforeAll(async () => {
    cluster = await GatewayCluster.open();
    [here, there] = await Promise.all([cluster.startGateway(), cluster.startGateway()]);
    runId = await startRun(there, "echo hello; sleep 1000");
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  const rowOf = async (member: ClusterGateway): Promise<{ host: string; port: number; key: string }> => {
    const [row] = await cluster.database.query(
      `select address, peer_key from holdfast.gateways where instance_id = '${member.gateway.instanceId}'`,
    );
    const { host, port } = JSON.parse(String(row?.["address"])) as { host: string; port: number };
    return { host, port, key: String(row?.["peer_key"]) };
  };

  interface Asked {
    readonly caller?: string;
    readonly psk?: Buffer;
    readonly path?: string;
    readonly method?: string;
    readonly headers?: Record<string, string | string[]>;
  }

  /** Sends a request as a gateway does, with the given differences. */
  const askPeer = async (asked: Asked): Promise<Answer> => {
    const { host, port, key } = await rowOf(there);
    const { caller = here.gateway.instanceId, path = `/v1/runs/${runId}/log` } = asked;
    const psk = asked.psk ?? derivePeerKey(key, caller, there.gateway.instanceId);
    const options = {
      host,
      port,
      path,
      method: asked.method ?? "GET",
      headers: asked.headers ?? { "holdfast-requester": "operator" },
      agent: false,
      servername: "peer",
      ciphers: "PSK",
      minVersion: "TLSv1.3",
      checkServerIdentity: () => new Error("a certificate"),
      pskCallback: () => ({ psk, identity: caller }),
    } as const;
    const asking = requestOverTls(options);
    asking.end();
    const [response] = (await once(asking, "response")) as [IncomingMessage];
    const body = JSON.parse(await text(response)) as { error?: { code: string } };
    return { status: response.statusCode ?? 0, code: body.error?.code ?? "" };
  };

  test("a gateway of the store gets an answer", async () => {
    expect(await askPeer({})).toEqual({ status: 200, code: "" });
  });

  test("a gateway that sends two Host headers is refused", async () => {
    const headers = { "holdfast-requester": "operator", host: ["one", "other"] };
    expect(await askPeer({ headers })).toEqual({ status: 400, code: "BAD_INPUT" });
  });

  test("a process without the key fails the handshake", async () => {
    const { key } = await rowOf(there);
    const { key: other } = await rowOf(here);
    const [me, target] = [here.gateway.instanceId, there.gateway.instanceId];
    const wrong = [
      derivePeerKey(other, me, target),
      // Between other two, or the other way round.
      derivePeerKey(key, "in_someone", target),
      derivePeerKey(key, target, me),
      Buffer.from(key, "base64url"),
    ];
    for (const psk of wrong) await expect(askPeer({ psk })).rejects.toThrow(/alert|EPROTO/);
    const { host, port } = await rowOf(there);
    const plain = requestOverTls({ host, port, agent: false, rejectUnauthorized: false });
    await expect(once(plain.end(), "response")).rejects.toThrow(/alert|EPROTO/);
    const bare = request({ host, port, agent: false });
    await expect(once(bare.end(), "response")).rejects.toThrow();
  });

  test("garbage on the port affects no peer", async () => {
    const { host, port } = await rowOf(there);
    const noise = ["", "GET / HTTP/1.1\r\n\r\n", "\u0016\u0003\u0001\u0002\u0000", "x".repeat(100_000)];
    const sockets = Array.from({ length: 60 }, (_, at) => {
      const socket = connect({ host, port }).on("error", () => {});
      socket.write(noise[at % noise.length] ?? "", "latin1");
      return socket;
    });
    expect(await askPeer({})).toEqual({ status: 200, code: "" });
    for (const socket of sockets) socket.destroy();
    const headers = { "holdfast-requester": "operator", padding: "x".repeat(20_000) };
    expect(await askPeer({ headers }).catch(() => ({ status: 431 }))).toMatchObject({ status: 431 });
  });

  test("a process with the key but without a record is refused", async () => {
    expect(await askPeer({ caller: "in_nobody" })).toEqual({ status: 401, code: "UNAUTHORIZED" });
  });

  test("a peer must name the requester", async () => {
    for (const headers of [
      {},
      { "holdfast-requester": "" },
      { "holdfast-requester": "Operator" },
      { "holdfast-requester": "session none" },
      { authorization: `Bearer ${there.token}` },
    ] as Record<string, string>[])
      expect(await askPeer({ headers })).toEqual({ status: 401, code: "UNAUTHORIZED" });
  });

  test("a peer may use only the routes of runs and ACP sessions", async () => {
    const unasked: readonly (readonly [string, string])[] = [
      ["GET", "/v1/gateway"],
      ["POST", "/v1/gateway/stop"],
      ["POST", "/v1/exec"],
      ["GET", "/v1/runs"],
      ["GET", "/v1/sessions"],
      ["POST", "/v1/sessions"],
      ["GET", "/v1/events?follow=1"],
      ["GET", "/metrics"],
      ["GET", "/openapi.json"],
    ];
    for (const [method, path] of unasked)
      expect(await askPeer({ method, path }), path).toEqual({ status: 404, code: "NOT_FOUND" });
    expect((await there.client.status()).ready).toBe(true);
  });

  test("a forwarded request is not forwarded again", async () => {
    const mine = await startRun(here, "sleep 1000");
    expect(await askPeer({ path: `/v1/runs/${mine}/log` })).toEqual({
      status: 502,
      code: "PEER_UNREACHABLE",
    });
  });

  test("the requester header is ignored on other listeners", async () => {
    const { token } = await here.client.openSession({ body: { key: "nosy" } });
    const asking = request({
      socketPath: here.socketPath,
      path: `/v1/runs/${runId}/log`,
      headers: { authorization: `Bearer ${token}`, "holdfast-requester": "operator" },
    });
    const [response] = (await once(asking.end(), "response")) as [IncomingMessage];
    expect(response.statusCode).toBe(404);
    const unsigned = request({
      socketPath: here.socketPath,
      path: `/v1/runs/${runId}/log`,
      headers: { "holdfast-requester": "operator" },
    });
    const [refused] = (await once(unsigned.end(), "response")) as [IncomingMessage];
    expect(refused.statusCode).toBe(401);
  });

  test("a session sees only its own runs across gateways", async () => {
    const { token } = await here.client.openSession({
      body: { key: "owner", execRules: [{ effect: "allow" }] },
    });
    const { token: strange } = await here.client.openSession({ body: { key: "stranger" } });
    const as = (of: ClusterGateway, its: string): ClusterGateway => ({
      ...of,
      token: its,
      client: createClient({ socketPath: of.socketPath, token: its }),
    });
    const own = await startRun(as(there, token), "echo mine; sleep 1000");
    expect((await as(here, token).client.log({ params: { runId: own } })).text).toBe("mine\n");
    const viewer = new RunViewer(as(here, token), own);
    await once(viewer.socket, "message");
    viewer.socket.terminate();
    for (const runs of [own, runId]) {
      const nosy = as(here, strange);
      expect(await errorOf(nosy.client.log({ params: { runId: runs } }))).toMatchObject({
        code: "RUN_NOT_FOUND",
      });
      expect(await errorOf(nosy.client.kill({ params: { runId: runs } }))).toMatchObject({
        code: "RUN_NOT_FOUND",
      });
      const shut = new RunViewer(nosy, runs);
      expect(await shut.closed).toBe(1006);
      expect(shut.said).toEqual([]);
    }
    expect(await as(here, token).client.kill({ params: { runId: own } })).toMatchObject({
      outcome: "gone",
      run: { exit: { actor: "session:owner" } },
    });
  });

  test("an unreachable gateway is named with its last heartbeat", async () => {
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { instanceId } = there.gateway;
    const set = (address: string): Promise<unknown> =>
      cluster.database.query(
        `update holdfast.gateways set address = ${address} where instance_id = '${instanceId}'`,
      );
    const before = await rowOf(there);
    const { port } = silent.address() as AddressInfo;
    try {
      for (const [address, why] of [
        ["null", "does not listen for others"],
        [`'{"host":"127.0.0.1","port":1}'`, "ECONNREFUSED"],
        [`'{"host":"127.0.0.1","port":${port}}'`, "no answer within"],
      ] as const) {
        await set(address);
        const { code, message } = await errorOf(here.client.log({ params: { runId } }));
        expect(code).toBe("PEER_UNREACHABLE");
        expect(message).toContain(why);
        expect(message).toMatch(/is on host .+ last heartbeat \d{4}-.* UTC/);
      }
      // Stopping it is not a matter of being reached.
      expect(await here.client.kill({ params: { runId } })).toMatchObject({ outcome: "gone" });
    } finally {
      await set(`'${JSON.stringify({ host: before.host, port: before.port })}'`);
      silent.close();
    }
  });
});
