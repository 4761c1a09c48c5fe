import { expect, test } from "vitest";
import { reachGateway } from "../../../../src/gateway/locate-gateway.js";
import { browserForFile, hasBrowser } from "../../../support/dashboard/browser.js";
import { openView } from "../../../support/dashboard/dashboard-page.js";
import {
  killGateway,
  startGatewayProcess,
  temporaryHomeWithBystander,
} from "../../../support/gateway/gateway-process.js";
import { gatewayForFile, shellCommand } from "../../../support/gateway/real-gateway.js";
import { waitFor } from "../../../support/wait-for.js";

const fixture = gatewayForFile();
const browser = browserForFile();

const inTerminal = (script: string) => ({ ...shellCommand(script), pty: true, background: true });

test.skipIf(!hasBrowser)("what is typed goes to the run, and only after typing was allowed", async () => {
  // It asks the terminal what it is and where its cursor is: the answers would be input.
  const script = `printf '\\033[c\\033[6n\\033[38;2;10;200;30mready\\033[0m\\n'; while read -r line; do echo "got <$line>"; done`;
  const { run } = await fixture.client.exec({ body: inTerminal(script) });
  const { page, problems } = await openView(browser, fixture.client, `/runs/${run.runId}`);
  const terminal = page.getByRole("group", { name: "Terminal" });
  await terminal.getByText("ready").waitFor();
  await page.getByRole("status").getByText("Live").waitFor();
  // Its colour passes the policy of the page, which allows no inline styles.
  const colour = await page.evaluate(
    "getComputedStyle([...document.querySelectorAll('.xterm-rows span')].find((each) => each.textContent === 'ready')).color",
  );
  expect(colour).toBe("rgb(10, 200, 30)");

  await terminal.click();
  await page.keyboard.type("ignored");
  await page.getByRole("button", { name: "Type", exact: true }).click();
  await page.keyboard.type("hello world");
  await page.keyboard.press("Enter");
  await terminal.getByText("got <hello world>").waitFor();
  await page.keyboard.press("Shift+F6");
  await page.keyboard.type("x");
  await page.getByRole("button", { name: "As text" }).click();
  const text = (await page.getByLabel("The terminal as text").textContent()) ?? "";
  expect(text.split("\n")).toEqual(["ready", "hello world", "got <hello world>"]);
  expect(problems).toEqual([]);
  await fixture.client.kill({ params: { runId: run.runId } });
});

test.skipIf(!hasBrowser)("a terminal is searched, and is resized only on request", async () => {
  const { run } = await fixture.client.exec({
    body: {
      ...inTerminal("seq 1 500; trap 'stty size' WINCH; while :; do sleep 0.1; done"),
      rows: 24,
      cols: 80,
    },
  });
  const { page } = await openView(browser, fixture.client, `/runs/${run.runId}`);
  await page.getByRole("group", { name: "Terminal" }).getByText("500").waitFor();
  await page.getByRole("searchbox", { name: "Search the terminal" }).fill("137");
  await page.keyboard.press("Enter");
  await page.getByRole("group", { name: "Terminal" }).getByText("137", { exact: true }).waitFor();
  await page.getByRole("searchbox", { name: "Search the terminal" }).fill("no such text");
  await page.keyboard.press("Enter");
  await page.getByText("not found").waitFor();
  const params = { runId: run.runId };
  expect((await fixture.client.screen({ params })).cols).toBe(80);
  await page.getByRole("button", { name: "Fit" }).click();
  await waitFor("the size", async () => (await fixture.client.screen({ params })).cols !== 80);
  await fixture.client.kill({ params });
});

test.skipIf(!hasBrowser)("the terminal of an ended run shows its output", async () => {
  const { run } = await fixture.client.exec({ body: inTerminal("printf 'one\\ntwo \\303\\244\\n'") });
  const { page, problems } = await openView(browser, fixture.client, `/runs/${run.runId}`);
  await page.getByText("Complete", { exact: true }).waitFor();
  await page.getByRole("group", { name: "Terminal" }).getByText("two ä").waitFor();
  expect(await page.getByRole("button", { name: "Type", exact: true }).count()).toBe(0);
  expect(problems).toEqual([]);
});

test.skipIf(!hasBrowser)(
  "a terminal continues at the next byte after its gateway was killed in the middle of output",
  async () => {
    const home = await temporaryHomeWithBystander();
    const first = await startGatewayProcess(home);
    const lines = 3_000;
    // Characters of several bytes are cut by frames anywhere.
    const script = `i=0; while [ $i -lt ${lines} ]; do i=$((i+1)); echo "line $i äöü"; [ $((i % 20)) -ne 0 ] || sleep 0.02; done; sleep 3600`;
    const { run } = await first.client.exec({ body: inTerminal(script) });
    const { page } = await openView(browser, first.client, `/runs/${run.runId}`);
    const terminal = page.getByRole("group", { name: "Terminal" });
    await terminal
      .getByText(/^line \d{2,} äöü/)
      .first()
      .waitFor();
    killGateway(first.pid);
    await page.getByText("Connection lost").waitFor();
    await waitFor("the gateway is gone", async () => (await reachGateway(home).catch(() => null)) === null);
    const second = await startGatewayProcess(home);
    await terminal.getByText(`line ${lines} äöü`).waitFor({ timeout: 120_000 });
    await page.getByRole("status").getByText("Live").waitFor();
    await page.getByRole("button", { name: "As text" }).click();
    const text = (await page.getByLabel("The terminal as text").textContent()) ?? "";
    const expected = Array.from({ length: lines }, (_, at) => `line ${at + 1} äöü`);
    expect(text.split("\n")).toEqual(expected);
    await second.client.kill({ params: { runId: run.runId } });
  },
);
