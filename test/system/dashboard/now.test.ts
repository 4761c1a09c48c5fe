import { expect, test } from "vitest";
import { browserForFile, hasBrowser } from "../../support/dashboard/browser.js";
import { gatewayForFile, shellCommand } from "../../support/gateway/real-gateway.js";

const fixture = gatewayForFile();
const browser = browserForFile();

async function startRun(script: string, name?: string): Promise<string> {
  const labels = name === undefined ? {} : { labels: { name } };
  const { run } = await fixture.client.exec({
    body: { ...shellCommand(script), background: true, ...labels },
  });
  return run.runId;
}

test.skipIf(!hasBrowser)("the page shows runs as they start and end, with its own files only", async () => {
  const first = await startRun("sleep 3600", "first");
  const { page, problems, requests } = await browser.open();
  const { url } = await fixture.client.openDashboard({ body: {} });
  await page.goto(url);
  const running = page.getByRole("list", { name: "Running" });
  await running.getByText("first").waitFor();
  // The link is not left in the address or the history.
  expect(page.url()).toBe(new URL("/", url).href);

  const second = await startRun("sleep 3600", "second");
  await running.getByText("second").waitFor();
  await fixture.client.kill({ params: { runId: first } });
  await page.getByRole("list", { name: "Ended" }).getByText("first").waitFor();
  await running.getByText("first").waitFor({ state: "detached" });

  await page.reload();
  await running.getByText("second").waitFor();
  expect(problems).toEqual([]);
  expect(requests.filter((each) => !each.startsWith(new URL("/", url).href))).toEqual([]);
  await fixture.client.kill({ params: { runId: second } });
});

test.skipIf(!hasBrowser)("a page without a login says how to open it", async () => {
  const { page } = await browser.open();
  const { url } = await fixture.client.openDashboard({ body: {} });
  await page.goto(new URL("/", url).href);
  await page.getByText("holdfast dashboard", { exact: true }).waitFor();
  await page.goto(`${new URL("/", url).href}#link=wrong`);
  await page.getByRole("alert").getByText("expired").waitFor();
});

test.skipIf(!hasBrowser)("hostile commands and names are shown as text", async () => {
  const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
  const runId = await startRun(`: '${hostile}' \u202e; sleep 3600`, `\u202etxt.exe ${hostile}`.slice(0, 100));
  const { page, problems } = await browser.open({ width: 390, height: 844 });
  const { url } = await fixture.client.openDashboard({ body: {} });
  await page.goto(url);
  await page.getByRole("list", { name: "Running" }).getByText("onerror").first().waitFor();
  // A change of direction is a visible sign, and moves no other text.
  await page.getByText("<U+202E>txt.exe").waitFor();
  expect(await page.locator("#content img, #content script").count()).toBe(0);
  expect(await page.title()).toBe("Now · Holdfast");
  const overflow = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
  expect(overflow).toBe(0);
  expect(problems).toEqual([]);
  await fixture.client.kill({ params: { runId } });
});
