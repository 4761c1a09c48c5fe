import { spawn } from "node:child_process";
import { expect, onTestFinished, test } from "vitest";
import { browserForFile, hasBrowser } from "../../../support/dashboard/browser.js";
import { expectNoOverflow, openView } from "../../../support/dashboard/dashboard-page.js";
import { gatewayForFile, shellCommand } from "../../../support/gateway/real-gateway.js";
import { waitFor } from "../../../support/wait-for.js";

const fixture = gatewayForFile();
const browser = browserForFile();

const COMMANDS = ["sh", "sleep", "tail"];
const HOSTILE = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;

test.skipIf(!hasBrowser)("stopping a run names its processes and ends them, and nothing else", async () => {
  const bystander = spawn("sleep", ["3711"], { stdio: "ignore" });
  onTestFinished(() => void bystander.kill("SIGKILL"));
  const script = "sleep 3712 & setsid tail -f /dev/null & wait";
  const { run } = await fixture.client.exec({
    body: { ...shellCommand(script), background: true, labels: { name: "tree" } },
  });
  const { page, problems } = await openView(browser, fixture.client, `/runs/${run.runId}`);
  const tree = page.getByRole("list", { name: "Process tree" });
  for (const command of COMMANDS) await tree.getByText(command, { exact: true }).waitFor();

  await page.getByRole("button", { name: "Stop…" }).click();
  const dialog = page.getByRole("dialog");
  const ends = dialog.getByRole("list", { name: "Processes that will end" });
  for (const command of COMMANDS) await ends.getByText(command, { exact: true }).waitFor();
  expect(await ends.getByRole("listitem").count()).toBe(COMMANDS.length);
  await page.keyboard.press("Escape");
  expect((await fixture.client.getRun({ params: { runId: run.runId } })).state).toBe("running");

  await page.getByRole("button", { name: "Stop…" }).click();
  await dialog.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText("Stopped: all of its processes are gone.").waitFor();
  await page.getByText("It was stopped on request").waitFor();
  await page.getByText("nothing, and that is proven").waitFor();
  const timeline = page.getByRole("region", { name: "Timeline" });
  for (const title of ["Recorded", "Started", "Asked to stop", "Command ended"])
    await timeline.getByText(title, { exact: true }).waitFor();
  expect(await page.getByRole("button", { name: "Stop…" }).count()).toBe(0);
  expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
  expect(problems).toEqual([]);
});

test.skipIf(!hasBrowser)("hostile output, commands and names are shown as text", async () => {
  const script = `cat <<'END'\n${HOSTILE}\nEND\nprintf '\\033]0;owned\\007\\033[31mred\\033[0m \\342\\200\\256rtl\\n'; head -c 1000000 /dev/zero | tr '\\0' x; : '${HOSTILE}'; sleep 3600`;
  for (const pty of [false, true]) {
    const { run } = await fixture.client.exec({
      body: { ...shellCommand(script), pty, background: true, labels: { name: HOSTILE.slice(0, 90) } },
    });
    const params = { runId: run.runId };
    await waitFor("its output", async () => {
      const { nextOffset } = await fixture.client.log({ params, query: { offset: 2 ** 40, maxBytes: 4 } });
      return nextOffset > 1_000_000;
    });
    const opened = await openView(browser, fixture.client, `/runs/${run.runId}?output=stdout`, {
      width: 390,
      height: 844,
    });
    const { page, problems } = opened;
    const log = page.getByRole("region", { name: "Output" }).last();
    await log.getByText("xxxx").first().waitFor();
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await log.getByText("<script>document.title='owned'</script>").first().waitFor();
    expect(await page.locator("#content img, #content script").count()).toBe(0);
    // Its escapes and the change of direction are visible signs.
    const text = (await log.textContent()) ?? "";
    expect(text).not.toMatch(/[\u001b\u202e]/);
    await expectNoOverflow(opened);
    if (pty) {
      await page.getByRole("button", { name: "Terminal" }).click();
      await page
        .getByRole("group", { name: "Terminal" })
        .locator(".xterm-rows")
        .getByText("xxxx")
        .first()
        .waitFor();
      expect(await page.locator("#content img, #content script").count()).toBe(0);
      await expectNoOverflow(opened);
    }
    expect(await page.title()).not.toBe("owned");
    expect(problems).toEqual([]);
    await fixture.client.kill({ params });
  }
});
