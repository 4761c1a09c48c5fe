import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { browserForFile, hasBrowser } from "../../../support/dashboard/browser.js";
import { gatewayForFile, shellCommand } from "../../../support/gateway/real-gateway.js";

const fixture = gatewayForFile();
const browser = browserForFile();

/** A page of another program of this machine, to which a browser sends the dashboard's cookie: cookies ignore ports. */
async function serveAttack(): Promise<{ readonly url: string; readonly cookies: readonly string[] }> {
  const attack = readFileSync(new URL("attack.html", import.meta.url));
  const cookies: string[] = [];
  const server = createServer((request, response) => {
    cookies.push(request.headers.cookie ?? "");
    response.writeHead(200, { "content-type": "text/html" }).end(attack);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, cookies };
}

test.skipIf(!hasBrowser)(
  "a page of another port gets the cookie, and can read and change nothing",
  async () => {
    const { run } = await fixture.client.exec({ body: { ...shellCommand("sleep 3600"), background: true } });
    const { page, context } = await browser.open();
    const { url } = await fixture.client.openDashboard({ body: {} });
    await page.goto(url);
    await page.getByRole("list", { name: "Running" }).waitFor();
    const dashboard = new URL("/", url).href;
    const icon = await page.locator("link[rel=icon]").getAttribute("href");
    const attack = await serveAttack();
    const attacker = await context.newPage();
    const aims = new URLSearchParams({
      dashboard,
      change: new URL(`/v1/runs/${run.runId}/kill`, url).href,
      icon: new URL(icon ?? "", url).href,
    });
    await attacker.goto(`${attack.url}?${aims.toString()}`);
    await attacker.waitForFunction("document.title === 'done'");
    expect(attack.cookies.join()).toContain("holdfast_dashboard_");
    expect(await attacker.locator("pre").textContent()).toBe("");
    // The answer to the form is not shown in the frame either.
    expect(attacker.frames().filter((frame) => frame.url().startsWith(dashboard))).toEqual([]);
    // A window of the dashboard that another page opens has no link to that page.
    const [opened] = await Promise.all([
      context.waitForEvent("page"),
      attacker.evaluate(`void window.open(${JSON.stringify(dashboard)})`),
    ]);
    await opened.getByRole("list", { name: "Running" }).waitFor();
    expect(await opened.evaluate("window.opener === null")).toBe(true);
    expect((await fixture.client.getRun({ params: { runId: run.runId } })).state).toBe("running");
    await fixture.client.kill({ params: { runId: run.runId } });
  },
);
