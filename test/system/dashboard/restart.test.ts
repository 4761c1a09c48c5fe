import { expect, test } from "vitest";
import { browserForFile, hasBrowser } from "../../support/browser.js";
import {
  killGateway,
  startGatewayProcess,
  temporaryHomeWithBystander,
} from "../../support/gateway/gateway-process.js";
import { shellCommand } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";

const browser = browserForFile();

test.skipIf(!hasBrowser)(
  "an open page continues after its gateway was killed, and misses nothing",
  async () => {
    const home = await temporaryHomeWithBystander();
    const first = await startGatewayProcess(home);
    const body = { ...shellCommand("sleep 3600"), background: true };
    const { run } = await first.client.exec({ body: { ...body, labels: { name: "before" } } });
    const { page } = await browser.open();
    const { url } = await first.client.openDashboard({ body: {} });
    await page.goto(url);
    const running = page.getByRole("list", { name: "Running" });
    await running.getByText("before").waitFor();

    killGateway(first.pid);
    await page.getByText("Connection lost").waitFor();
    await waitFor("the gateway is gone", async () => (await reachGateway(home).catch(() => null)) === null);
    await running.getByText("before").waitFor();
    const second = await startGatewayProcess(home);
    // Both happen while the page may not be connected yet.
    await second.client.exec({ body: { ...body, labels: { name: "after" } } });
    await second.client.kill({ params: { runId: run.runId } });
    await page.getByText("Connection restored").waitFor();
    await running.getByText("after").waitFor();
    await page.getByRole("list", { name: "Ended" }).getByText("before").waitFor();
    expect(new URL(page.url()).hash).toBe("");
  },
);
