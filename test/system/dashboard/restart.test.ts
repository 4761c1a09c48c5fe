import { copyFile, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { browserForFile, hasBrowser } from "../../support/dashboard/browser.js";
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

test.skipIf(!hasBrowser)(
  "a page that is open while an older backup is put back reads everything again, and says so",
  async () => {
    const home = await temporaryHomeWithBystander();
    const start = async (names: readonly string[]) => {
      const gateway = await startGatewayProcess(home);
      for (const name of names)
        await gateway.client.exec({ body: { ...shellCommand("exit 0"), labels: { name } } });
      return gateway;
    };
    const stop = async ({ client }: Awaited<ReturnType<typeof start>>): Promise<void> => {
      await client.stop({ body: { runs: "terminate" } });
      await waitFor("the gateway is gone", async () => (await reachGateway(home).catch(() => null)) === null);
    };
    await stop(await start(["kept"]));
    const backup = join(home, "backup");
    await mkdir(backup);
    for (const file of await storeFiles(home)) await copyFile(join(home, file), join(backup, file));

    const second = await start(["lost"]);
    const { page, context } = await browser.open();
    const { url } = await second.client.openDashboard({ body: {} });
    await page.goto(url);
    const ended = page.getByRole("list", { name: "Ended" });
    await ended.getByText("lost").waitFor();
    await context.setOffline(true);
    await stop(second);
    await page.getByText("Connection lost").waitFor();
    for (const file of await storeFiles(home)) await rm(join(home, file));
    for (const file of await storeFiles(backup)) await copyFile(join(backup, file), join(home, file));
    // Their events have the numbers of those that are lost, and higher ones.
    await start(["new", "newer", "newest"]);
    await context.setOffline(false);
    await page.getByText(/^Connection restored.*not complete, so everything was read again/).waitFor();
    await ended.getByText("newest").waitFor();
    await ended.getByText("kept").waitFor();
    await ended.getByText("lost").waitFor({ state: "detached" });
  },
);

/** The database, with its log. */
async function storeFiles(directory: string): Promise<string[]> {
  return (await readdir(directory)).filter((file) => file.startsWith("store.sqlite"));
}
