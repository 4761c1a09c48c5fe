import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { parseConfig } from "../../../../src/config/schema.js";
import { browserForFile, hasBrowser } from "../../../support/dashboard/browser.js";
import { openView } from "../../../support/dashboard/dashboard-page.js";
import { gatewayForFile, shellCommand } from "../../../support/gateway/real-gateway.js";
import { waitFor } from "../../../support/wait-for.js";

// Output beyond this is dropped, the oldest first.
const fixture = gatewayForFile({
  config: parseConfig(`[defaults]\nbuffer-bytes = ${128 * 1024 * 1024}\n`, ""),
});
const browser = browserForFile();

const LINES = 2_500_000;
const lineOf = (number: number): string =>
  `line ${String(number).padStart(8, "0")} ${"abcdefghij".repeat(3)}`;

const logOf = (page: Page) => page.getByRole("region", { name: "Output" }).last();

const BOX = "document.querySelector('.log-pane pre')";
/** Pixels below what is shown. */
const BELOW = `${BOX}.scrollHeight - ${BOX}.clientHeight - ${BOX}.scrollTop`;

/** The whole lines that are in the document now. */
async function linesOf(page: Page): Promise<readonly string[]> {
  return ((await logOf(page).textContent()) ?? "").split("\n").slice(1, -1);
}

test.skipIf(!hasBrowser)(
  "a log of 100 MB scrolls by pages, and is searched",
  { timeout: 300_000 },
  async () => {
    const script = `seq -f 'line %08.0f abcdefghijabcdefghijabcdefghij' 1 ${LINES}`;
    const { run } = await fixture.client.exec({ body: { ...shellCommand(script), background: true } });
    const params = { runId: run.runId };
    await waitFor(
      "its end",
      async () => (await fixture.client.getRun({ params })).state === "exited",
      120_000,
    );
    const { page, problems, requests } = await openView(browser, fixture.client, `/runs/${run.runId}`);
    await logOf(page).getByText(lineOf(LINES)).waitFor();

    await page.getByRole("button", { name: "Start", exact: true }).click();
    await logOf(page).getByText(lineOf(1)).waitFor();
    const before = requests.length;
    // Pages are read as the reader comes near them, and follow each other without a gap.
    for (let round = 0; round < 12; round++) {
      const last = (await linesOf(page)).at(-1);
      await page.evaluate(`${BOX}.scrollTo(0, ${BOX}.scrollHeight)`);
      await waitFor("the next page", async () => (await linesOf(page)).at(-1) !== last);
      const numbers = (await linesOf(page)).map((line) => Number(line.slice(5, 13)));
      expect(numbers).toEqual(numbers.map((_, at) => (numbers[0] ?? 0) + at));
    }
    expect(requests.length).toBeGreaterThan(before);
    const size = ((await logOf(page).textContent()) ?? "").length;
    expect(size).toBeLessThan(1_000_000);

    await page.getByRole("slider", { name: "Position in the output" }).fill("60000000");
    await waitFor("the middle", async () => {
      const [line = ""] = await linesOf(page);
      const offset = Number(line.slice(5, 13)) * (lineOf(1).length + 1);
      return Math.abs(offset - 60_000_000) < 200_000;
    });

    await page.getByRole("searchbox", { name: "Search the log" }).fill("line 01111111");
    await page.keyboard.press("Enter");
    await logOf(page).getByText(lineOf(1_111_111)).waitFor();
    const selected = () => page.evaluate("getSelection().toString()");
    await waitFor("the match is selected", async () => (await selected()) === "line 01111111");
    await page.getByRole("button", { name: "End", exact: true }).click();
    await logOf(page).getByText(lineOf(LINES)).waitFor();
    expect(problems).toEqual([]);
  },
);

test.skipIf(!hasBrowser)("new output is followed until the reader scrolls away", async () => {
  const script = 'seq 1 400; while read -r line; do seq -f "$line %g" 1 50; echo oops >&2; done';
  const { run } = await fixture.client.exec({
    body: { ...shellCommand(script), stdin: "pipe", background: true },
  });
  const params = { runId: run.runId };
  const { page, problems } = await openView(browser, fixture.client, `/runs/${run.runId}`);
  await logOf(page).getByText("400").waitFor();
  const send = (text: string) => fixture.client.write({ params, body: { text: `${text}\n` } });
  await send("first");
  await logOf(page).getByText("first 50").waitFor();
  await waitFor("the end is shown", async () => (await page.evaluate(BELOW)) === 0);

  await page.evaluate(`${BOX}.scrollTo(0, 100)`);
  await page.getByRole("button", { name: "Follow", pressed: false }).waitFor();
  const place = await page.evaluate(`${BOX}.scrollTop`);
  await send("second");
  await page.getByRole("button", { name: "Errors" }).click();
  await logOf(page).getByText("oops").first().waitFor();
  await page.getByRole("button", { name: "Output", exact: true }).click();
  await logOf(page).getByText("second 50").waitFor();
  expect(place).toBe(100);
  expect(problems).toEqual([]);
  await fixture.client.kill({ params });
});
