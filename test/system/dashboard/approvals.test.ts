import { expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { browserForFile, hasBrowser, screenshot } from "../../support/dashboard/browser.js";
import { openView } from "../../support/dashboard/dashboard-page.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile({ config: parseConfig('[[exec]]\neffect = "ask"\n', "") });
const browser = browserForFile();

/** A session's command that waits for an approval, and its answer. */
async function askToRun(key: string, argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { token } = await fixture.client.openSession({ body: { key } });
  const before = await pendingIds();
  const answer = fixture
    .as(token)
    .exec({ body: { argv: [...argv], env, cwd: fixture.home } })
    .then(
      ({ run }) => run.exit?.reason ?? "running",
      (error: unknown) => (error as { readonly code: string }).code,
    );
  let id = "";
  await waitFor("the question is listed", async () => {
    id = (await pendingIds()).find((each) => !before.includes(each)) ?? "";
    return id !== "";
  });
  return { id, answer };
}

async function pendingIds(): Promise<string[]> {
  return (await fixture.client.listApprovals()).approvals.map(({ id }) => id);
}

test.skipIf(!hasBrowser)("a command is shown element by element, and runs when it is allowed", async () => {
  const hostile = "two words\u202e<b>\n$(rm)\u0007";
  const { id, answer } = await askToRun("builder", ["/bin/echo", hostile, ""], { STAGE: "prod" });
  const { page, problems } = await openView(browser, fixture.client, "/");
  await page.getByRole("link", { name: "/bin/echo" }).click();
  expect(new URL(page.url()).pathname).toBe(`/approvals/${id}`);
  const allow = page.getByRole("button", { name: "Allow once" });
  await allow.waitFor();
  const shown = await page.locator(".question").innerText();
  // As a shell would be given it: escapes instead of control characters, and an empty argument.
  expect(shown).toContain(String.raw`$'two words\u202e<b>\n`);
  expect(shown).toContain(String.raw`$(rm)\a'`);
  expect(shown).toMatch(/argv\[2\]\s+''/);
  expect(shown).toContain("env STAGE");
  expect(shown).toContain(fixture.home);
  await page.getByRole("link", { name: "builder", exact: true }).waitFor();
  await screenshot(page, "approval");
  await allow.click();
  await page.getByRole("status").getByText("operator has allowed it").waitFor();
  expect(await answer).toBe("exit");
  await page.goBack();
  await page.getByRole("heading", { name: "Now" }).waitFor({ state: "attached" });
  expect(problems).toEqual([]);
});

test.skipIf(!hasBrowser)("a long command can be allowed only after its last page, at 390 px", async () => {
  const words = Array.from({ length: 3_000 }, (_, at) => `argument-${at}-${"x".repeat(40)}`);
  const { id, answer } = await askToRun("long", ["/bin/true", ...words]);
  const { page, problems } = await openView(browser, fixture.client, "/", { width: 390, dark: true });
  await page.goto(new URL(`/approvals/${id}`, page.url()).href);
  await page.getByText("Page 1 of").waitFor();
  const allow = page.getByRole("button", { name: "Allow once" });
  const next = page.getByRole("button", { name: "Next" });
  expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
  await screenshot(page, "approval-long-390");
  for (let at = 1; await next.isEnabled(); at++) {
    expect(await allow.isDisabled()).toBe(true);
    await next.click();
    await page.getByText(`Page ${at + 1} of`).waitFor();
  }
  await page.getByText("argument-2999-").waitFor();
  await allow.click();
  await page.getByRole("status").getByText("allowed").waitFor();
  expect(await answer).toBe("exit");
  expect(problems).toEqual([]);
});

test.skipIf(!hasBrowser)("a question that ended meanwhile is no longer answered", async () => {
  const denied = await askToRun("elsewhere", ["/bin/true", "decided"]);
  const { page } = await openView(browser, fixture.client, "/");
  await page.goto(new URL("/approvals", page.url()).href);
  await page.getByRole("link", { name: "/bin/true decided" }).click();
  await page.getByRole("button", { name: "Deny" }).waitFor();
  await fixture.client.decideApproval({ params: { id: denied.id }, body: { verdict: "deny" } });
  await page.getByRole("status").getByText("denied it").waitFor();
  expect(await page.getByRole("button", { name: "Allow once" }).count()).toBe(0);
  expect(await denied.answer).toBe("EXEC_DENIED");

  const expired = await askToRun("gone", ["/bin/true", "expired"]);
  await page.goto(new URL(`/approvals/${expired.id}`, page.url()).href);
  await page.getByRole("button", { name: "Deny" }).waitFor();
  const { sessions } = await fixture.client.listSessions({});
  const gone = sessions.find(({ key }) => key === "gone")?.id ?? expect.fail("no session");
  await fixture.client.closeSession({ params: { id: gone } });
  await page.getByRole("status").getByText("It has expired and was not run").waitFor();
  expect(await expired.answer).not.toBe("exit");
  await page.getByRole("link", { name: "All approvals" }).click();
  await page.getByText("Nothing waits for an answer").waitFor();
  const history = page.getByRole("table", { name: "Questions that were decided" });
  await history.getByRole("row").filter({ hasText: "expired" }).filter({ hasText: "/bin/true" }).waitFor();
  const row = history.getByRole("row").filter({ hasText: "denied" });
  await row.getByText("operator").waitFor();
  await row.getByRole("link", { name: "elsewhere" }).waitFor();
  await screenshot(page, "approvals-empty");
});
