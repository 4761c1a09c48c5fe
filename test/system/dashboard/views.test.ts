import { expect, test } from "vitest";
import { browserForFile, hasBrowser } from "../../support/dashboard/browser.js";
import { gatewayForFile, shellCommand } from "../../support/gateway/real-gateway.js";

const fixture = gatewayForFile();
const browser = browserForFile();

const SIZES = [
  { width: 1440, height: 900 },
  { width: 390, height: 844 },
] as const;

test.skipIf(!hasBrowser).for(SIZES)("every view opens by its link, at a width of $width", async (size) => {
  const { run } = await fixture.client.exec({ body: shellCommand("true") });
  const { page, problems } = await browser.open(size);
  const { url } = await fixture.client.openDashboard({ body: {} });
  await page.goto(url);
  const navigation = page.getByRole("navigation", { name: "Views" });
  await navigation.getByRole("link", { name: "Health" }).click();
  await page.getByText("readable and writable").waitFor();
  await page.goBack();
  await page.getByRole("list", { name: "Ended" }).getByRole("link").first().click();
  await page.getByText(run.runId).first().waitFor();
  for (const name of ["Sessions", "Tasks", "Approvals", "Hosts"]) {
    await navigation.getByRole("link", { name }).click();
    await page.getByRole("heading", { name, level: 1 }).waitFor();
    await page.getByText("Loading…").waitFor({ state: "detached" });
    expect(await page.title()).toBe(`${name} · Holdfast`);
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth"), name).toBe(0);
    await page.reload();
    await page.getByRole("heading", { name, level: 1 }).waitFor();
  }
  expect(problems).toEqual([]);
});

test.skipIf(!hasBrowser)("the page of a session shows what it may see", async () => {
  await fixture.client.openSession({ body: { key: "reviewer" } });
  const { run } = await fixture.client.exec({ body: shellCommand("true") });
  const { page, problems } = await browser.open();
  const { url } = await fixture.client.openDashboard({ body: { session: "reviewer" } });
  await page.goto(url);
  await page.getByText("Nothing is running").waitFor();
  expect(await page.getByText("Ended", { exact: true }).count()).toBe(0);
  expect(await page.getByRole("link", { name: "Hosts" }).count()).toBe(0);
  expect(problems).toEqual([]);
  await page.goto(new URL(`/runs/${run.runId}`, url).href);
  await page.getByRole("alert").getByText(run.runId).waitFor();
});
