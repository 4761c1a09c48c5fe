import { expect, test } from "vitest";
import { browserForFile, hasBrowser } from "../../../support/dashboard/browser.js";
import {
  killGateway,
  startGatewayProcess,
  temporaryHomeWithBystander,
} from "../../../support/gateway/gateway-process.js";
import { shellCommand } from "../../../support/gateway/real-gateway.js";

const browser = browserForFile();

test.skipIf(!hasBrowser)(
  "two browsers show the same, also after their gateway was killed, and log out one by one",
  async () => {
    const home = await temporaryHomeWithBystander();
    const first = await startGatewayProcess(home);
    const body = { ...shellCommand("sleep 3600"), background: true };
    const { run } = await first.client.exec({ body: { ...body, labels: { name: "before" } } });
    const open = async (width: number) => {
      const { page, problems } = await browser.open({ width });
      const { url } = await first.client.openDashboard({ body: {} });
      await page.goto(url);
      await page.getByRole("list", { name: "Running" }).getByText("before").waitFor();
      return { page, problems, url };
    };
    const [one, two] = [await open(1440), await open(390)];
    expect(new URL(one.url).port).toBe(new URL(two.url).port);
    const pages = [one.page, two.page];

    killGateway(first.pid);
    for (const page of pages) await page.getByText("Connection lost").waitFor();
    const second = await startGatewayProcess(home);
    await second.client.exec({ body: { ...body, labels: { name: "after" } } });
    await second.client.kill({ params: { runId: run.runId } });
    for (const page of pages) {
      await page.getByRole("list", { name: "Running" }).getByText("after").waitFor();
      await page.getByRole("list", { name: "Ended" }).getByText("before").waitFor();
    }

    await one.page.getByRole("button", { name: "Log out" }).click();
    await one.page.getByText("holdfast dashboard", { exact: true }).waitFor();
    await second.client.exec({ body: { ...body, labels: { name: "last" } } });
    await two.page.getByRole("list", { name: "Running" }).getByText("last").waitFor();
    await one.page.reload();
    await one.page.getByText("holdfast dashboard", { exact: true }).waitFor();
    expect(await one.page.getByText("last", { exact: true }).count()).toBe(0);
  },
);
