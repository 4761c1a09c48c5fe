import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { expect, test } from "vitest";
import type { DefaultOverrides } from "../../support/cli/cli-fixture.js";
import { startGatewayProcess, temporaryHomeWithBystander } from "../../support/gateway/gateway-process.js";
import { gatewayForFile, shellCommand } from "../../support/gateway/real-gateway.js";
import {
  askDashboard,
  asPage,
  type DashboardLogin,
  fromPage,
  logIn,
  portOf,
  secretOf,
} from "../../support/gateway/dashboard-client.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile();

async function loggedIn(): Promise<{ readonly port: number; readonly login: DashboardLogin }> {
  const { url } = await fixture.client.openDashboard({ body: {} });
  return { port: portOf(url), login: await logIn(url) };
}

async function dashboardWith(numbers: DefaultOverrides): Promise<string> {
  const { client } = await startGatewayProcess(await temporaryHomeWithBystander(), numbers);
  return (await client.openDashboard({ body: {} })).url;
}

/** The answer to a request to open a WebSocket. */
async function upgrade(port: number, path: string, headers: Readonly<Record<string, string>>) {
  const asking = request({
    ...{ host: "127.0.0.1", port, path, agent: false },
    headers: {
      ...{ connection: "Upgrade", upgrade: "websocket" },
      ...{ "sec-websocket-version": "13", "sec-websocket-key": Buffer.alloc(16).toString("base64") },
      ...headers,
    },
  });
  asking.end();
  const answered = once(asking, "response").then(([response]) => response as never);
  const upgraded = once(asking, "upgrade").then(([response]) => response as never);
  const response: { statusCode: number; headers: Record<string, string>; resume?: () => void } =
    await Promise.race([answered, upgraded]);
  asking.destroy();
  return { status: response.statusCode, headers: response.headers };
}

test("a link that has expired logs nobody in", async () => {
  const url = await dashboardWith({ dashboardLinkMs: 1, dashboardExpiryPollMs: 3_600_000 });
  const answer = await askDashboard(portOf(url), {
    method: "POST",
    path: "/dashboard/login",
    headers: fromPage(portOf(url)),
    body: { link: secretOf(url) },
  });
  expect(answer).toMatchObject({ status: 401, code: "UNAUTHORIZED" });
  expect(answer.text).toContain("the link was used or has expired");
  expect(answer.headers["set-cookie"]).toBeUndefined();
});

test("a login that expires ends its streams, and nothing listens any more", async () => {
  const url = await dashboardWith({ dashboardLoginMs: scaled(2_000), dashboardExpiryPollMs: 50 });
  const port = portOf(url);
  const headers = asPage(port, await logIn(url));
  const stream = request({ host: "127.0.0.1", port, path: "/v1/events?follow=1", headers, agent: false });
  stream.end();
  const [response] = (await once(stream, "response")) as [{ statusCode: number; resume: () => void }];
  expect(response.statusCode).toBe(200);
  const ended = once(response as never, "error");
  response.resume();
  await ended;
  await waitFor("nothing listens", async () => {
    const socket = connect({ host: "127.0.0.1", port });
    const refused = await once(socket, "connect").then(
      () => false,
      (error: unknown) => (error as NodeJS.ErrnoException).code === "ECONNREFUSED",
    );
    socket.destroy();
    return refused;
  });
});

test("a form of another site logs nobody in, and does not use the link up", async () => {
  const { url } = await fixture.client.openDashboard({ body: {} });
  const port = portOf(url);
  const attack = {
    method: "POST",
    path: "/dashboard/login",
    body: { link: secretOf(url) },
  };
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json"])
    for (const origin of ["https://evil.example", "null", "http://127.0.0.1:1"]) {
      const headers = { origin, "content-type": type };
      expect(await askDashboard(port, { ...attack, headers })).toMatchObject({ status: 403 });
    }
  expect((await askDashboard(port, { ...attack, headers: fromPage(port) })).status).toBe(200);
});

test("a form cannot send the token, so that even one of the page's own origin changes nothing", async () => {
  const { port, login } = await loggedIn();
  const { run } = await fixture.client.exec({ body: { ...shellCommand("sleep 60"), background: true } });
  const headers = {
    ...fromPage(port),
    cookie: login.cookie,
    "content-type": "application/x-www-form-urlencoded",
  };
  const path = `/v1/runs/${run.runId}/kill`;
  expect((await askDashboard(port, { method: "POST", path, headers, body: {} })).status).toBe(401);
  expect((await fixture.client.getRun({ params: { runId: run.runId } })).state).toBe("running");
  await fixture.client.kill({ params: { runId: run.runId } });
});

test("a name that is rebound to this machine gets neither the page nor the API", async () => {
  const { port, login } = await loggedIn();
  for (const host of [`evil.example:${port}`, "127.0.0.1", "127.0.0.1:1", `127.0.0.1.evil.example:${port}`])
    for (const path of ["/", "/assets/index.js", "/v1/runs", "/dashboard/login"]) {
      const method = path === "/dashboard/login" ? "POST" : "GET";
      // A browser takes the page for one of the rebound name: it names that origin in a POST, and none in a GET.
      const headers: Record<string, string> = { ...asPage(port, login), host, origin: `http://${host}` };
      if (method === "GET") delete headers["origin"];
      const answer = await askDashboard(port, { method, path, headers });
      expect(answer, `${host} ${path}`).toMatchObject({ status: 403, code: "FOREIGN_ORIGIN" });
      expect(answer.headers["content-security-policy"]).toContain("default-src 'none'");
    }
});

test("the cookie and the token of another port's dashboard are worth nothing here", async () => {
  const { port, login } = await loggedIn();
  const url = await dashboardWith({});
  const other = portOf(url);
  const theirs = await logIn(url);
  const [, value = ""] = theirs.cookie.split("=");
  const read = async (cookie: string, token: string): Promise<number> => {
    const headers = { ...fromPage(port), cookie, "holdfast-page-token": token };
    return (await askDashboard(port, { path: "/v1/runs", headers })).status;
  };
  expect(await read(theirs.cookie, theirs.token)).toBe(401);
  expect(await read(`holdfast_dashboard_${port}=${value}`, theirs.token)).toBe(401);
  expect(await read(`holdfast_dashboard_${port}=${value}`, login.token)).toBe(401);
  // A browser sends the cookies of all ports of a host.
  expect(await read(`${theirs.cookie}; ${login.cookie}`, login.token)).toBe(200);
  const headers = { ...fromPage(other), cookie: login.cookie, "holdfast-page-token": login.token };
  expect((await askDashboard(other, { path: "/v1/runs", headers })).status).toBe(401);
});

test("a refused WebSocket carries the page's security headers", async () => {
  const { port, login } = await loggedIn();
  const { run } = await fixture.client.exec({ body: { ...shellCommand("sleep 60"), background: true } });
  const path = `/v1/runs/${run.runId}/attach`;
  const origin = `http://127.0.0.1:${port}`;
  const offered = { cookie: login.cookie, "sec-websocket-protocol": `holdfast, token.${login.token}` };
  const refused = [
    [403, path, { ...offered, origin: "https://evil.example" }],
    [403, path, { ...offered, origin, host: `evil.example:${port}` }],
    [403, path, offered],
    [401, path, { origin, cookie: login.cookie }],
    [401, path, { origin, "sec-websocket-protocol": offered["sec-websocket-protocol"] }],
    [404, "/v1/runs/run_none/attach", { ...offered, origin }],
  ] as const;
  for (const [status, asked, headers] of refused) {
    const answer = await upgrade(port, asked, headers);
    expect(answer.status).toBe(status);
    expect(answer.headers).toMatchObject({
      "content-security-policy": expect.stringContaining("frame-ancestors 'none'"),
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
    });
  }
  expect((await upgrade(port, path, { ...offered, origin })).status).toBe(101);
  await fixture.client.kill({ params: { runId: run.runId } });
});
