import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { WebSocket } from "ws";
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

const fixture = gatewayForFile();

async function openDashboard(session?: string): Promise<{ readonly url: string; readonly port: number }> {
  const { url } = await fixture.client.openDashboard({ body: session === undefined ? {} : { session } });
  return { url, port: portOf(url) };
}

async function loggedIn(
  session?: string,
): Promise<{ readonly port: number; readonly login: DashboardLogin }> {
  const { url, port } = await openDashboard(session);
  return { port, login: await logIn(url) };
}

test("nothing listens before the dashboard is opened, and after it is closed", async () => {
  expect(await fixture.client.closeDashboard()).toEqual({ closed: false });
  expect((await fixture.client.status()).listen).toBeNull();
  const { port, login } = await loggedIn();
  expect((await askDashboard(port, {})).status).toBe(200);
  expect(await fixture.client.closeDashboard()).toEqual({ closed: true });
  const [error] = (await once(connect({ host: "127.0.0.1", port }), "error")) as [NodeJS.ErrnoException];
  expect(error.code).toBe("ECONNREFUSED");
  // The old login is gone too.
  const again = await openDashboard();
  expect(again.port).toBe(port);
  expect((await askDashboard(port, { path: "/v1/runs", headers: asPage(port, login) })).status).toBe(401);
});

test("a link logs one browser in, once", async () => {
  const { url, port } = await openDashboard();
  const exchange = (link: string) =>
    askDashboard(port, { method: "POST", path: "/dashboard/login", headers: fromPage(port), body: { link } });
  expect(await exchange("x".repeat(43))).toMatchObject({ status: 401, code: "UNAUTHORIZED" });
  const answers = await Promise.all([exchange(secretOf(url)), exchange(secretOf(url))]);
  expect(answers.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([200, 401]);
  expect(await exchange(secretOf(url))).toMatchObject({ status: 401 });
});

test("the cookie is for this port, for no script and for no other site", async () => {
  const { url, port } = await openDashboard();
  const { headers } = await askDashboard(port, {
    method: "POST",
    path: "/dashboard/login",
    headers: fromPage(port),
    body: { link: secretOf(url) },
  });
  const [cookie = ""] = headers["set-cookie"] as string[];
  const [pair = "", ...flags] = cookie.split("; ");
  expect(pair).toMatch(new RegExp(`^holdfast_dashboard_${port}=[\\w-]{43}$`));
  expect(flags).toEqual(["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"]);
});

test("cookie and token are needed together, of the same login", async () => {
  const [one, other] = [await loggedIn(), await loggedIn()];
  const { port } = one;
  const read = async (headers: Record<string, string>): Promise<number> =>
    (await askDashboard(port, { path: "/v1/runs", headers: { ...fromPage(port), ...headers } })).status;
  expect(await read(asPage(port, one.login))).toBe(200);
  expect(await read(asPage(port, other.login))).toBe(200);
  expect(await read({})).toBe(401);
  // Another server on this machine gets the cookie from the browser, but never the token.
  expect(await read({ cookie: one.login.cookie })).toBe(401);
  expect(await read({ "holdfast-page-token": one.login.token })).toBe(401);
  expect(await read({ cookie: one.login.cookie, "holdfast-page-token": other.login.token })).toBe(401);
  expect(await read({ authorization: `Bearer ${fixture.token}` })).toBe(401);
});

const FOREIGN: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
  ["of another site", { origin: "https://evil.example", "sec-fetch-site": "cross-site" }],
  ["of another port of this machine", { origin: "http://127.0.0.1:1", "sec-fetch-site": "same-site" }],
  ["under another name of this machine", { origin: "http://localhost:PORT", "sec-fetch-site": "same-site" }],
  ["of a file or a sandboxed frame", { origin: "null", "sec-fetch-site": "cross-site" }],
  ["without an origin", { origin: "" }],
  ["for another host name", { host: "evil.example" }],
];

test.for(FOREIGN)("a change %s is refused", async ([, changed]) => {
  const { port, login } = await loggedIn();
  const { run } = await fixture.client.exec({ body: { ...shellCommand("sleep 60"), background: true } });
  const headers: Record<string, string> = { ...asPage(port, login) };
  for (const [name, value] of Object.entries(changed))
    if (value === "") delete headers[name];
    else headers[name] = value.replace("PORT", String(port));
  const path = `/v1/runs/${run.runId}/kill`;
  expect(await askDashboard(port, { method: "POST", path, headers, body: {} })).toMatchObject({
    status: 403,
    code: "FOREIGN_ORIGIN",
  });
  expect((await fixture.client.getRun({ params: { runId: run.runId } })).state).toBe("running");
  const own = { method: "POST", path, headers: asPage(port, login), body: {} };
  expect((await askDashboard(port, own)).status).toBe(200);
});

test("a read that another site or port causes is refused", async () => {
  const { port, login } = await loggedIn();
  for (const site of ["cross-site", "same-site", "none"]) {
    const headers = { ...asPage(port, login), "sec-fetch-site": site };
    expect(await askDashboard(port, { path: "/v1/runs", headers })).toMatchObject({ status: 403 });
  }
});

test("the page runs only its own files, and no other site may show it", async () => {
  const { port } = await openDashboard();
  for (const path of ["/", "/runs/some.run", "/v1/runs", "/assets/none.js"]) {
    const { headers } = await askDashboard(port, { path });
    const policy = String(headers["content-security-policy"]);
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|http|\*/);
    expect(headers).toMatchObject({
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cache-control": "no-store",
    });
    expect(headers["access-control-allow-origin"]).toBeUndefined();
  }
  const { text } = await askDashboard(port, { path: "/runs/some.run" });
  expect(text).toContain('<div id="app">');
  expect(text).not.toMatch(/<script(?![^>]*src=)|<style|https?:|\son\w+=/i);
  for (const path of ["/assets/../../package.json", "/..%2f..%2fpackage.json", "//etc/passwd"])
    expect((await askDashboard(port, { path })).text).not.toContain("devDependencies");
});

test("a page of a session sees and does what the session may", async () => {
  const mine = await fixture.client.openSession({
    body: { key: "mine", execRules: [{ effect: "allow" }] },
  });
  const run = await fixture.as(mine.token).exec({ body: { ...shellCommand("true") } });
  const foreign = await fixture.client.exec({ body: shellCommand("true") });
  const { port, login } = await loggedIn("mine");
  const headers = asPage(port, login);
  const read = (path: string) => askDashboard(port, { path, headers });
  const listed = JSON.parse((await read("/v1/runs?all=1")).text) as { runs: { runId: string }[] };
  expect(listed.runs.map(({ runId }) => runId)).toEqual([run.run.runId]);
  expect((await read(`/v1/runs/${foreign.run.runId}`)).status).toBe(404);
  expect((await read("/v1/approvals")).status).toBe(404);
  const stop = { method: "POST", path: "/v1/gateway/stop", headers, body: {} };
  expect((await askDashboard(port, stop)).status).toBe(404);
  // A session can open its own page, and no other.
  const own = await fixture.as(mine.token).openDashboard({ body: {} });
  expect(own.sessionId).toBe(mine.session.id);
  await fixture.client.openSession({ body: { key: "other" } });
  await expect(fixture.as(mine.token).openDashboard({ body: { session: "other" } })).rejects.toMatchObject({
    code: "NOT_FOUND",
  });
  await fixture.client.closeSession({ params: { id: "mine" } });
  expect((await read("/v1/runs")).status).toBe(401);
});

test("a log-out ends the login and its streams", async () => {
  const { port, login } = await loggedIn();
  const headers = asPage(port, login);
  const { run } = await fixture.client.exec({ body: { ...shellCommand("sleep 60"), background: true } });
  const { origin = "", cookie = "" } = headers;
  const path = `ws://127.0.0.1:${port}/v1/runs/${run.runId}/attach`;
  const viewer = new WebSocket(path, ["holdfast", `token.${login.token}`], { headers: { origin, cookie } });
  await once(viewer, "message");
  expect(viewer.protocol).toBe("holdfast");
  const closed = once(viewer, "close");
  const out = { method: "POST", path: "/dashboard/logout", headers, body: {} };
  expect((await askDashboard(port, out)).status).toBe(200);
  await closed;
  expect((await askDashboard(port, { path: "/v1/runs", headers })).status).toBe(401);
  await fixture.client.kill({ params: { runId: run.runId } });
});

test("a WebSocket needs origin, cookie and token", async () => {
  const { port, login } = await loggedIn();
  const { run } = await fixture.client.exec({ body: { ...shellCommand("sleep 60"), background: true } });
  const status = async (protocols: string[], headers: Record<string, string>): Promise<number> => {
    const url = `ws://127.0.0.1:${port}/v1/runs/${run.runId}/attach`;
    const socket = new WebSocket(url, protocols, { headers });
    socket.on("error", () => undefined);
    const [, response] = (await once(socket, "unexpected-response")) as [unknown, { statusCode: number }];
    socket.terminate();
    return response.statusCode;
  };
  const origin = `http://127.0.0.1:${port}`;
  const token = ["holdfast", `token.${login.token}`];
  expect(await status(token, { cookie: login.cookie })).toBe(403);
  expect(await status(token, { cookie: login.cookie, origin: "http://127.0.0.1:1" })).toBe(403);
  expect(await status(token, { origin })).toBe(401);
  expect(await status(["holdfast"], { origin, cookie: login.cookie })).toBe(401);
  await fixture.client.kill({ params: { runId: run.runId } });
});
