import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { scriptedAgent } from "../../support/agents/acp-fixture.js";
import { planStep, scriptedPrompt, toolStep } from "../../support/agents/scripted-agent.js";
import { browserForFile, hasBrowser, screenshot } from "../../support/dashboard/browser.js";
import { openView } from "../../support/dashboard/dashboard-page.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";

const fixture = gatewayForFile();
const browser = browserForFile();

const HOSTILE = "<img src=x onerror=alert(1)> \u202etxt.exe";

async function spawnAgent(key: string, more: { readonly parentSessionKey?: string } = {}): Promise<string> {
  const body = { argv: [...scriptedAgent], cwd: fixture.home, key, ...more };
  return (await fixture.client.acpSpawn({ body })).session.sessionId;
}

test.skipIf(!hasBrowser)(
  "a prompt from the page shows the plan, the tools, the diff and the answer",
  async () => {
    const id = await spawnAgent("writer");
    const { page, problems } = await openView(browser, fixture.client, "/sessions");
    await page.getByRole("list", { name: "Sessions" }).getByText("writer").click();
    expect(new URL(page.url()).pathname).toBe(`/sessions/${id}`);
    const go = join(fixture.home, "go");
    const steps = scriptedPrompt(
      { think: "I should look first." },
      planStep(["read the file", "completed"], ["change it", "in_progress"], [HOSTILE, "pending"]),
      toolStep("t1", "in_progress", { title: `Edit ${HOSTILE}`, kind: "edit" }),
      toolStep("t1", "completed", {
        content: [
          { type: "diff", path: "src/a.ts", oldText: "one\ntwo\nthree\n", newText: "one\n2\nthree\nfour\n" },
          { type: "content", content: { type: "text", text: "2 lines written" } },
        ],
      }),
      { say: "First half, " },
      { wait: go },
      { say: `second half. ${HOSTILE}` },
    );
    await page.getByRole("textbox", { name: "Prompt" }).fill(steps);
    await page.keyboard.press("Control+Enter");
    const turn = page.getByRole("article", { name: "Turn 1" });
    const answer = turn.locator(".answer-text");
    await answer.getByText("First half,").waitFor();
    await turn.getByText("running").waitFor();
    await turn.getByText("Plan: 1 of 3 done").waitFor();
    const diff = turn.getByRole("list", { name: "Changes of src/a.ts" });
    expect(
      (await diff.getByRole("listitem").allInnerTexts()).map((text) => text.replaceAll("\n", "")),
    ).toEqual([" one", "-two", "+2", " three", "+four"]);
    writeFileSync(go, "");
    await answer.getByText("second half. <img src=x onerror=alert(1)> <U+202E>txt.exe").waitFor();
    await turn.getByText("completed", { exact: true }).first().waitFor();
    expect(await page.locator("#content img, #content script").count()).toBe(0);
    await screenshot(page, "session");

    // The same after a reload: from the log, not from what the page has kept.
    await page.reload();
    await answer.getByText("second half. <img").waitFor();
    await diff.getByText("four").waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
    await screenshot(page, "session-390");
    expect(problems).toEqual([]);
  },
);

test.skipIf(!hasBrowser)(
  "permission requests are allowed, remembered and denied; a question is answered",
  async () => {
    const id = await spawnAgent("careful");
    const { page, problems } = await openView(browser, fixture.client, `/sessions/${id}`, { dark: true });
    const steps = scriptedPrompt(
      { ask: { title: `delete ${HOSTILE}`, rawInput: { command: ["rm", "-rf", "a b"] } } },
      { ask: "push it" },
      { ask: "push it" },
      { ask: "format the disk" },
      {
        elicit: {
          message: "Where to?",
          requestedSchema: {
            type: "object",
            properties: { stage: { type: "string", enum: ["test", "prod"] }, sure: { type: "boolean" } },
            required: ["stage"],
          },
        },
      },
    );
    await fixture.client.acpPrompt({ params: { id }, body: { text: steps, wait: false } });
    const question = page.getByRole("region", { name: "Permission request" });
    await question.getByText("execute: $'delete <img").waitFor();
    await question.getByText("'a b'").first().waitFor();
    await screenshot(page, "session-permission");
    await question.getByRole("button", { name: "Allow", exact: true }).click();
    await page.getByText("<yes>").waitFor();

    await question.getByText("push it").first().waitFor();
    await question.getByRole("combobox", { name: "for" }).selectOption("session");
    await question.getByRole("button", { name: "Allow", exact: true }).click();
    // The second of the same kind is answered by the rule.
    await question.getByText("format the disk").first().waitFor();
    const { rules } = await fixture.client.acpRules({ query: { session: id } });
    expect(rules).toMatchObject([{ effect: "allow", scope: "session" }]);
    await question.getByRole("button", { name: "Deny" }).click();

    await question.getByText("Where to?").first().waitFor();
    await question.getByRole("combobox", { name: "stage" }).selectOption("prod");
    await question.getByRole("checkbox", { name: "sure" }).check();
    await screenshot(page, "session-form");
    await question.getByRole("button", { name: "Answer" }).click();
    await page.getByText('{"stage":"prod","sure":true}').waitFor();
    await page.getByText("<no>").waitFor();
    await question.waitFor({ state: "detached" });
    expect(problems).toEqual([]);
  },
);

test.skipIf(!hasBrowser)("a turn is cancelled, and a session closed, from the page", async () => {
  const parent = await spawnAgent("lead");
  const child = await spawnAgent(`helper${" of a long name".repeat(10)}`, { parentSessionKey: "lead" });
  const { page, problems } = await openView(browser, fixture.client, "/sessions", { width: 390 });
  await page.getByText("below session lead").waitFor({ state: "attached" });
  expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
  await screenshot(page, "sessions-390");
  await page.setViewportSize({ width: 1440, height: 900 });
  await screenshot(page, "sessions");
  await page.goto(new URL(`/sessions/${child}`, page.url()).href);
  await page
    .getByRole("textbox", { name: "Prompt" })
    .fill(scriptedPrompt({ say: "I wait" }, { wait: "/no-such-file" }));
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("I wait", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Cancel the turn" }).click();
  await page.getByText("cancelled", { exact: true }).waitFor();

  await page.goto(new URL(`/sessions/${parent}`, page.url()).href);
  await page.getByRole("button", { name: "Close the session" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("checkbox", { name: "Also close the sessions below it" }).check();
  await screenshot(page, "session-close");
  await dialog.getByRole("button", { name: "Close the session" }).click();
  await page.getByText("closed", { exact: true }).first().waitFor();
  await dialog.waitFor({ state: "detached" });
  const { session } = await fixture.client.sessionStatus({ params: { id: child } });
  expect(session.closedAt).not.toBeNull();
  expect(problems).toEqual([]);
});

test.skipIf(!hasBrowser)(
  "the page of a session shows its messages, and no buttons of the operator",
  async () => {
    const { session } = await fixture.client.openSession({ body: { key: "plain" } });
    await fixture.client.sendMessage({ params: { id: session.id }, body: { text: `hello ${HOSTILE}` } });
    const { page, problems } = await openView(browser, fixture.client, `/sessions/${session.id}`, {
      width: 390,
      session: "plain",
    });
    await page.getByText("hello <img").waitFor();
    expect(await page.getByRole("button", { name: "Close the session" }).count()).toBe(0);
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
    await screenshot(page, "session-plain-390");
    await page.getByRole("link", { name: "All sessions" }).click();
    await page.getByRole("list", { name: "Sessions" }).getByText("plain").waitFor();
    expect(await page.getByRole("list", { name: "Sessions" }).getByRole("listitem").count()).toBe(1);
    expect(problems).toEqual([]);
  },
);
