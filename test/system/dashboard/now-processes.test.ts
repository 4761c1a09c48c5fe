import { expect, test } from "vitest";
import { browserForFile, hasBrowser } from "../../support/dashboard/browser.js";
import { expectNoOverflow, openView } from "../../support/dashboard/dashboard-page.js";
import { gatewayForFile, shellCommand } from "../../support/gateway/real-gateway.js";

const fixture = gatewayForFile();
const browser = browserForFile();

async function start(script: string, name: string): Promise<string> {
  const { run } = await fixture.client.exec({
    body: { ...shellCommand(script), background: true, labels: { name } },
  });
  return run.runId;
}

test.skipIf(!hasBrowser)("the list shows the processes of each run, their CPU and memory", async () => {
  const busy = await start("while :; do :; done", "busy");
  const idle = await start("sleep 3721 & tail -f /dev/null", "idle");
  const { page, problems } = await openView(browser, fixture.client, "/");
  const rows = page.getByRole("list", { name: "Running" }).getByRole("listitem");
  const rowOf = (name: string) => rows.filter({ has: page.getByRole("link", { name }) });
  // A charted share of one CPU, of which the loop takes most that the machine has left.
  await rowOf("busy")
    .getByRole("img", { name: /^CPU [1-9]/ })
    .waitFor();
  await rowOf("idle")
    .getByRole("img", { name: /^CPU 0/ })
    .waitFor();
  await rowOf("idle")
    .getByRole("img", { name: /^Memory \d/ })
    .waitFor();

  const processes = (name: string) => rows.filter({ hasText: new RegExp(`^\\d+ ${name}`) });
  expect(await processes("tail").count()).toBe(0);
  await rowOf("idle")
    .getByRole("button", { name: /processes/ })
    .click();
  for (const command of ["sh", "sleep", "tail"]) await processes(command).first().waitFor();
  expect(page.url()).not.toContain("processes");

  await page.getByRole("button", { name: "Show processes", exact: true }).click();
  await page.reload();
  for (const command of ["sleep", "tail"]) await processes(command).first().waitFor();
  expect(await processes("sh").count()).toBe(2);
  for (const runId of [busy, idle]) await fixture.client.kill({ params: { runId } });
  await page.getByText("Nothing is running").waitFor();
  expect(problems).toEqual([]);
});

test.skipIf(!hasBrowser)("a run that was removed leaves the list when its page is open", async () => {
  const runId = await start("exit 3", "removed");
  const { page } = await openView(browser, fixture.client, "/");
  const ended = page.getByRole("list", { name: "Ended" });
  await ended.getByText("removed").waitFor();
  await fixture.client.remove({ params: { runId } });
  // Nothing reports it; the page looks again after a while.
  await ended.getByText("removed").waitFor({ state: "detached", timeout: 90_000 });
});

test.skipIf(!hasBrowser)("all views are reached without scrolling on a phone", async () => {
  const opened = await openView(browser, fixture.client, "/", { width: 390, height: 844 });
  await expectNoOverflow(opened);
  const links = opened.page.getByRole("navigation", { name: "Views" }).getByRole("link");
  for (const link of await links.all()) {
    const box = await link.boundingBox();
    expect(box === null ? -1 : box.x).toBeGreaterThanOrEqual(0);
    expect(box === null ? 391 : box.x + box.width).toBeLessThanOrEqual(390);
  }
});
