import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { browserForFile, hasBrowser } from "../../support/dashboard/browser.js";
import { gatewayForFile, shellCommand } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile({ config: parseConfig('[[exec]]\neffect = "ask"\n', "") });
const browser = browserForFile();
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The findings that keep a person from using the page. */
async function findings(page: Page): Promise<readonly string[]> {
  const { violations } = await page.evaluate<AxeResults>("axe.run()");
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary ?? ""}`),
    );
}

/** Something to show in each view; its paths. */
async function fillViews(): Promise<readonly string[]> {
  const { client } = fixture;
  const { run } = await client.exec({
    body: { ...shellCommand("echo hello; sleep 3600"), background: true, labels: { name: "server" } },
  });
  await client.exec({ body: shellCommand("exit 3") });
  const { token } = await client.openSession({ body: { key: "builder" } });
  void fixture
    .as(token)
    .exec({ body: { argv: ["/bin/echo", "may I"] } })
    .catch(() => undefined);
  let approval = "";
  await waitFor("a question waits", async () => {
    approval = (await client.listApprovals()).approvals[0]?.id ?? "";
    return approval !== "";
  });
  const { task } = await client.createTask({ body: { label: "import", text: "the data", notify: "silent" } });
  await client.taskProgress({ params: { id: task.taskId }, body: { text: "half of it" } });
  const views = ["/", "/sessions", "/tasks", "/approvals", "/hosts", "/health", "/nowhere"];
  return [...views, `/runs/${run.runId}`, `/tasks/${task.taskId}`, `/approvals/${approval}`];
}

let filled: ReturnType<typeof fillViews> | null = null;

const LOOKS = [
  { width: 1440, height: 900, dark: false },
  { width: 1440, height: 900, dark: true },
  { width: 390, height: 844, dark: false },
  { width: 390, height: 844, dark: true },
] as const;

test.skipIf(!hasBrowser).for(LOOKS)(
  "axe finds nothing serious in any view, at a width of $width, dark: $dark",
  async (look) => {
    filled ??= fillViews();
    const paths = await filled;
    const { page, context } = await browser.open(look);
    // Set up by the browser itself: the page's policy allows no other scripts.
    await context.addInitScript(axe);
    const { url } = await fixture.client.openDashboard({ body: {} });
    await page.goto(url);
    await page.getByRole("list", { name: "Running" }).waitFor();
    for (const path of paths) {
      await page.goto(new URL(path, url).href);
      await page.getByRole("navigation", { name: "Views" }).waitFor();
      await waitFor("the view is there", async () => {
        const shown = await page.locator("#content").innerText();
        return shown.trim() !== "" && !shown.includes("Loading…");
      });
      expect(await findings(page), path).toEqual([]);
    }
  },
);

/** The element with the focus: its role or tag, and its name. */
const FOCUSED = `(() => {
  const { activeElement: element } = document;
  return element.tagName + " " + (element.getAttribute("aria-label") ?? element.textContent).trim();
})()`;

const OUTLINE = `(() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
  return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
})()`;

test.skipIf(!hasBrowser)("everything is reached, read and stopped with the keyboard alone", async () => {
  filled ??= fillViews();
  await filled;
  const { page, problems } = await browser.open();
  const { url } = await fixture.client.openDashboard({ body: {} });
  await page.goto(url);
  await page.getByRole("list", { name: "Running" }).getByRole("link").first().waitFor();
  const tabTo = async (wanted: RegExp): Promise<void> => {
    const passed: unknown[] = [];
    while (passed.length < 60) {
      await page.keyboard.press("Tab");
      const focused = await page.evaluate<string>(FOCUSED);
      if (focused !== "BODY")
        expect(await page.evaluate(OUTLINE), `focus is visible on ${focused}`).toBe(true);
      if (wanted.test(focused)) return;
      passed.push(focused);
    }
    expect.fail(`Tab does not reach ${wanted.source}; it passes ${passed.join(", ")}`);
  };
  await tabTo(/^A Tasks/);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Tasks", level: 1 }).waitFor();
  await tabTo(/^A .*import/s);
  await page.keyboard.press("Enter");
  const cancel = page.getByRole("button", { name: "Cancel the task" });
  await cancel.first().waitFor();
  await tabTo(/^BUTTON Cancel the task/);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  // The focus stays in the dialog, and may leave it only for the browser's own controls.
  for (let at = 0; at < 6; at++) {
    await page.keyboard.press("Tab");
    expect(
      await page.evaluate(
        "document.activeElement === document.body || document.activeElement.closest('dialog') !== null",
      ),
    ).toBe(true);
  }
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  // Back where it was, so that the next Tab continues from there.
  expect(await page.evaluate(FOCUSED)).toBe("BUTTON Cancel the task");
  await page.keyboard.press("Enter");
  await dialog.waitFor();
  for (let at = 0; at < 3; at++)
    if ((await page.evaluate<string>(FOCUSED)) !== "BUTTON Cancel the task") await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByText("cancelled", { exact: true }).first().waitFor();
  expect(problems).toEqual([]);
});
