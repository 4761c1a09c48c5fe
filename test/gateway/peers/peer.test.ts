import { execFile, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { PeerUnreachable } from "../../../src/errors.js";
import { derivePeerKey, newPeerKey, Peer, type PeerErrorFactory } from "../../../src/gateway/peers/peer.js";
import { proxyRequest } from "../../../src/gateway/peers/proxy.js";
import type { GatewayRecord } from "../../../src/model/gateway.js";
import { newGateway } from "../../contract/gateway-contract.js";

const SILENT_MS = 200;

const ofRun =
  (row: GatewayRecord): PeerErrorFactory =>
  (why, how) =>
    new PeerUnreachable("run_x", row, why, how);

async function listening(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Starts a peer that answers with `app`, and a gateway that forwards to it. Returns the port of the latter. */
async function passingTo(app: RequestListener): Promise<number> {
  const key = newPeerKey();
  const there = createTlsServer(
    {
      minVersion: "TLSv1.3",
      ciphers: "PSK",
      pskCallback: (_, caller) => derivePeerKey(key, caller, "in_there"),
    },
    app,
  );
  const address = { host: "127.0.0.1", port: await listening(there) };
  const row = {
    ...newGateway({ instanceId: "in_there", address, peerKey: key }),
    heartbeatAt: 1,
    stoppedAt: null,
  };
  const here = createServer((request, response) => {
    const peer = new Peer("in_here", row, ofRun(row), SILENT_MS);
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    proxyRequest(peer, { kind: "operator", actor: "operator" }, request, response, gone.signal).catch(
      (error: unknown) =>
        response.headersSent ? response.destroy() : response.end((error as Error).message),
    );
  });
  return listening(here);
}

test("a request to a silent peer fails; a peer that reports progress is waited for", async () => {
  const port = await passingTo((request, response) => {
    if (request.url === "/silent") return;
    const saying = setInterval(() => response.writeProcessing(), SILENT_MS / 4);
    void setTimeout(SILENT_MS * 5).then(() => {
      clearInterval(saying);
      response.end("done");
    });
  });
  const ask = async (path: string): Promise<string> =>
    (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  expect(await Promise.all([ask("/silent"), ask("/slow")])).toEqual([
    expect.stringContaining(`no data for ${SILENT_MS} ms`),
    "done",
  ]);
});

test("a response that is not read here does not count as silence of the peer", async () => {
  const size = 32 * 1024 * 1024;
  const port = await passingTo((_, response) => response.end(Buffer.alloc(size, 1)));
  const response = await fetch(`http://127.0.0.1:${port}/`);
  await setTimeout(SILENT_MS * 5);
  expect((await response.arrayBuffer()).byteLength).toBe(size);
});

test("a request whose caller disconnects is aborted at the peer", async () => {
  let left: () => void = () => {};
  const gone = new Promise<void>((resolve) => (left = resolve));
  let asked: () => void = () => {};
  const begun = new Promise<void>((resolve) => (asked = resolve));
  const port = await passingTo((_, response) => {
    response.once("close", left);
    asked();
  });
  const leaving = new AbortController();
  const asking = fetch(`http://127.0.0.1:${port}/`, { signal: leaving.signal }).catch(() => null);
  await begun;
  leaving.abort();
  await Promise.all([asking, gone]);
});

test("a request that breaks off after it was sent is reported as perhaps done", async () => {
  const done: string[] = [];
  const port = await passingTo((request, response) => {
    request.on("data", (bytes: Buffer) => done.push(bytes.toString()));
    request.on("end", () => response.socket?.destroy());
  });
  const ask = async (init: RequestInit): Promise<string> =>
    (await fetch(`http://127.0.0.1:${port}/`, init)).text();
  const typed = await ask({ method: "POST", body: "rm it\n" });
  expect(done).toEqual(["rm it\n"]);
  expect(typed).toContain("may have been carried out");
  expect(typed).not.toContain("Nothing was done");
  // Reading changes nothing.
  expect(await ask({})).toContain("Nothing was done");
});

const noOpenssl = spawnSync("openssl", ["version"]).status !== 0;

test.skipIf(noOpenssl)("a valid certificate is no proof of the key", async () => {
  const directory = mkdtempSync(join(tmpdir(), "hf-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")];
  const made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"];
  spawnSync("openssl", [...made, "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert]);
  let heard = 0;
  const stranger = createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_, response) => {
    heard += 1;
    response.end("trust me");
  });
  const port = await listening(stranger);
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: cert };
  // Control: an ordinary client accepts the certificate.
  const script = `fetch("https://localhost:${port}").then(({ status }) => console.log(status))`;
  const trusting = await promisify(execFile)(process.execPath, ["-e", script], { env });
  expect([trusting.stdout, heard]).toEqual(["200\n", 1]);
  const child = join(import.meta.dirname, "children/ask.mjs");
  // Nor if the environment makes Node accept any certificate.
  for (const more of [{}, { NODE_TLS_REJECT_UNAUTHORIZED: "0", NODE_NO_WARNINGS: "1" }]) {
    const around = { env: { ...env, ...more } };
    const { stdout } = await promisify(execFile)(process.execPath, [child, String(port)], around);
    expect(stdout).toBe("refused: it has not proven that it uses the same store\n");
    expect(heard).toBe(1);
  }
});

test("the advice of the error differs for a gateway that does not listen and one that has stopped", () => {
  const asking = (stoppedAt: number | null) => () => {
    const row = { ...newGateway({ address: null, peerKey: null }), heartbeatAt: 1, stoppedAt };
    new Peer("in_here", row, ofRun(row)).request("GET", "/", {}, () => false);
  };
  const heard = "last heartbeat 1970-01-01 00:00:00 UTC. Nothing was done.";
  expect(asking(null)).toThrow(
    `${heard} Try on that host, or let its gateway listen. \`holdfast stop\` needs no connection to it`,
  );
  expect(asking(1)).toThrow(
    `${heard} Start a gateway there. \`holdfast stop\` stops the run as soon as a gateway runs there`,
  );
});
