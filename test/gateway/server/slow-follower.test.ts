import { once } from "node:events";
import { createServer, get, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { UpdateFollower } from "../../../src/acp/turn/update-follower.js";
import type { HandlerDeps } from "../../../src/gateway/routes/handler-deps.js";
import { createStreamingRoutes } from "../../../src/gateway/server/streaming-routes.js";
import type { AcpSession, AcpUpdate } from "../../../src/model/acp/session-and-turn.js";
import type { AcpStore } from "../../../src/store/acp/contract.js";
import { temporaryHome } from "../../support/supervisor/real-supervisor.js";

const PAGES = 100;
const TEXT = "x".repeat(64 * 1024);

/** A session with more to read than any buffer on the way holds. */
class Flood implements Pick<AcpStore, "getAcpSession" | "listAcpUpdates"> {
  read = 0;

  async getAcpSession(): Promise<AcpSession> {
    return { sessionId: "s", state: "closed" } as AcpSession;
  }

  async listAcpUpdates({ after = 0 }: { after?: number }): Promise<readonly AcpUpdate[]> {
    if (after === PAGES) return [];
    this.read = after + 1;
    return [{ sessionId: "s", seq: after + 1, turnId: null, at: 1, type: "update", data: TEXT }];
  }
}

async function follow(flood: Flood): Promise<IncomingMessage> {
  const unused = {} as never;
  const deps = {
    store: flood,
    acp: { updates: new UpdateFollower(flood as unknown as AcpStore, () => true) },
    authorizer: { requireSession: async () => ({ id: "s" }), isStillAuthorized: async () => true },
  } as unknown as HandlerDeps;
  const routes = createStreamingRoutes(deps, unused, unused);
  const gone = new AbortController();
  const requester = { kind: "operator" } as never;
  const server = createServer((request, response) => {
    response.on("close", () => gone.abort());
    const url = new URL(request.url ?? "", "http://localhost");
    void routes(request, response, url, {
      ...{ requester, disconnected: gone.signal, enqueue: (work) => work() },
      countStream: () => ({ [Symbol.dispose]: () => undefined }),
    });
  });
  const socketPath = join(await temporaryHome(), "s");
  await once(server.listen(socketPath), "listening");
  onTestFinished(() => void server.close());
  const asked = get({ socketPath, path: "/v1/acp/sessions/s/updates?follow=1&after=0" });
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  return answer;
}

test("a follower that does not read stops the reading from the store, and loses nothing", async () => {
  const flood = new Flood();
  const answer = await follow(flood);
  for (let seen = 0, calm = 0; calm < 500; calm = flood.read === seen ? calm + 1 : 0) {
    seen = flood.read;
    await setImmediate();
  }
  // Half of it would not fit into what the kernel and both ends hold.
  expect(flood.read).toBeLessThan(PAGES / 2);
  let heard = "";
  for await (const part of answer.setEncoding("utf8")) heard += String(part).replaceAll("x", "");
  expect(heard.trim().split("\n")).toHaveLength(PAGES);
  expect(flood.read).toBe(PAGES);
});
