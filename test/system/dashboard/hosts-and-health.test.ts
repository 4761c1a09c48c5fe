import { expect, test } from "vitest";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { browserForFile, hasBrowser, screenshot } from "../../support/dashboard/browser.js";
import { GatewayCluster, onOtherHost, OTHER_HOST, startRun } from "../../support/gateway/gateway-cluster.js";
import {
  killGateway,
  startGatewayProcess,
  temporaryHomeWithBystander,
} from "../../support/gateway/gateway-process.js";
import { shellCommand } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const browser = browserForFile();

test.skipIf(!hasBrowser)("the hosts of a shared database, with their gateways, runs and leases", async () => {
  await using cluster = await GatewayCluster.open();
  const here = await cluster.startGateway();
  const home = await cluster.newHome();
  const there = await cluster.spawnGateway(home, await onOtherHost(home));
  await startRun(here, "sleep 3600");
  const name = `<i>far</i> ${"long ".repeat(20)}`;
  await startRun(there, "exec sleep 3601", { labels: { name } });
  const { page, problems } = await browser.open();
  const { url } = await here.client.openDashboard({ body: {} });
  await page.goto(url);
  await page.getByRole("link", { name: "Hosts" }).click();
  const far = page.getByRole("region", { name: `Host ${OTHER_HOST}` });
  await far.getByText("<i>far</i>").waitFor();
  await far.getByText("up", { exact: true }).waitFor();
  await far.getByText(/leased for \d+s/).waitFor();
  await page.getByText("the host of this page").waitFor();
  await page.getByText(/Every lease is on its clock, which shows \d\d:\d\d:\d\d\./).waitFor();
  await screenshot(page, "hosts");
  await page.setViewportSize({ width: 390, height: 844 });
  expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
  await screenshot(page, "hosts-390");
  await there.client.stop({ body: { runs: "terminate" } });
  await far.getByText("stopped", { exact: true }).waitFor();
  await far.getByText("No run is open on this host").waitFor();
  expect(problems).toEqual([]);
});

test.skipIf(!hasBrowser)(
  "health shows what was cleaned up, and what was reconciled after a kill",
  async () => {
    const home = await temporaryHomeWithBystander();
    const first = await startGatewayProcess(home);
    const body = { ...shellCommand("exec sleep 3600"), background: true };
    const { run } = await first.client.exec({ body });
    killGateway(first.pid);
    await waitFor("the gateway is gone", async () => (await reachGateway(home).catch(() => null)) === null);
    const second = await startGatewayProcess(home);
    await second.client.exec({ body: shellCommand("sleep 3017 & sleep 3017 & exit 0") });
    const { page, problems } = await browser.open({ dark: true });
    const { url } = await second.client.openDashboard({ body: {} });
    await page.goto(url);
    await page.getByRole("link", { name: "Health" }).click();
    const decisions = page.getByRole("table", { name: "Decisions about runs" });
    await decisions.getByRole("link", { name: run.runId }).waitFor();
    const cleaned = page.getByRole("region", { name: "Leaks prevented" });
    await cleaned.getByRole("row").filter({ hasText: "2" }).waitFor();
    await page.getByRole("img", { name: /^Runs held: now 1,/ }).waitFor();
    await page.getByText("need no attention").waitFor();
    const doctor = page.getByRole("region", { name: "Doctor" });
    const passed = doctor.getByRole("list", { name: "Passed checks" });
    const summary = doctor.getByText("checks found nothing wrong");
    await summary.waitFor();
    expect(await passed.count()).toBe(0);
    await summary.click();
    await passed.getByText("store", { exact: true }).waitFor();
    await screenshot(page, "health");
    await page.getByRole("combobox", { name: "Time range" }).selectOption("24h");
    expect(new URL(page.url()).search).toBe("?range=24h");
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
    await screenshot(page, "health-390");
    await decisions.getByRole("link", { name: run.runId }).click();
    await page.getByText("sleep 3600").first().waitFor();
    await page.goBack();
    await page.getByRole("heading", { name: "Health" }).waitFor();
    expect(new URL(page.url()).search).toBe("?range=24h");
    await second.client.kill({ params: { runId: run.runId } });
    expect(problems).toEqual([]);
  },
);
