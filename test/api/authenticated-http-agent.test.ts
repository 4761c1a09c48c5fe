import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { gatewayForFile } from "../support/gateway/real-gateway.js";

const fixture = gatewayForFile({ requestMs: 3_000 });

test("a client closes an idle connection before the gateway does, so that no request is sent on a connection that closes", async () => {
  const opened: Socket[] = [];
  const onSocket = (message: unknown): void =>
    void opened.push((message as { readonly socket: Socket }).socket);
  subscribe("net.client.socket", onSocket);
  await fixture.as(fixture.token).status();
  unsubscribe("net.client.socket", onSocket);
  const [socket] = opened;
  if (socket === undefined) expect.fail("no connection was opened");
  let closedByGateway = false;
  socket.once("end", () => (closedByGateway = true));
  await once(socket, "close");
  expect(closedByGateway).toBe(false);
  expect(await fixture.client.status()).toMatchObject({ pid: process.pid });
});
