import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { browserForFile, hasBrowser, screenshot } from "../../support/dashboard/browser.js";
import { openView } from "../../support/dashboard/dashboard-page.js";
import { gatewayForFile, shellCommand } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";
import { webhookConfig } from "../../support/http-receiver.js";

/** A receiver that refuses everything for good until `accepts`. */
let accepts = false;
const receiver = createServer((request, response) => {
  request.resume();
  request.once("end", () => response.writeHead(accepts ? 200 : 410).end());
});
await new Promise<void>((resolve) => {
  receiver.listen(0, "127.0.0.1", resolve);
});
const directory = mkdtempSync(join(tmpdir(), "hf-receiver-"));
afterAll(() => {
  receiver.closeAllConnections();
  receiver.close();
  rmSync(directory, { recursive: true });
});
const { port } = receiver.address() as { readonly port: number };

const fixture = gatewayForFile({
  config: parseConfig(webhookConfig(directory, "pager", `http://127.0.0.1:${port}/`), ""),
});
const browser = browserForFile();

const HOSTILE = "<script>alert(1)</script> \u202eevil & ".padEnd(180, "long ");

test.skipIf(!hasBrowser)("a notification that failed is sent again from the page of its task", async () => {
  const { task } = await fixture.client.createTask({
    body: { label: HOSTILE, text: "import the data", origin: { channel: "pager" }, notify: "done_only" },
  });
  const params = { id: task.taskId };
  await fixture.client.taskProgress({ params, body: { text: "half of the rows are in" } });
  const { page, problems } = await openView(browser, fixture.client, "/tasks");
  await page.getByRole("list", { name: "Tasks" }).getByText("half of the rows are in").waitFor();
  await fixture.client.finishTask({ params, body: { status: "failed", error: "<b>no space</b> left" } });
  await waitFor("the message has failed", async () => {
    const { messages } = await fixture.client.getTask({ params });
    return messages[0]?.status === "failed";
  });
  await page.getByRole("list", { name: "Tasks" }).getByText("not delivered").waitFor();
  await screenshot(page, "tasks");
  await page.getByRole("combobox", { name: "Notification" }).selectOption("failed");
  expect(new URL(page.url()).search).toBe("?told=failed");
  await page.getByRole("list", { name: "Tasks" }).getByRole("link").click();
  const messages = page.getByRole("table", { name: "Messages about this task" });
  await messages.getByText("answered 410").waitFor();
  await page.getByText("<b>no space</b> left", { exact: true }).waitFor();
  await screenshot(page, "task");
  accepts = true;
  await page.getByRole("button", { name: "Send again" }).click();
  await messages.getByText("delivered", { exact: true }).waitFor();
  await page.getByText("retried").waitFor();
  expect(await page.getByRole("button", { name: "Send again" }).count()).toBe(0);
  await page.goBack();
  await page.getByText("No task matches the filters").waitFor();
  expect(problems).toEqual([]);
});

test.skipIf(!hasBrowser)("a task is cancelled from its page, at 390 px", async () => {
  const { run } = await fixture.client.exec({ body: { ...shellCommand("sleep 3600"), background: true } });
  const { page, problems } = await openView(browser, fixture.client, "/tasks?status=open", {
    width: 390,
    dark: true,
  });
  await page.getByRole("list", { name: "Tasks" }).getByText("sleep 3600").click();
  await page.getByRole("button", { name: "Cancel the task" }).click();
  await screenshot(page, "task-cancel-390");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the task" }).click();
  await page.getByText("cancelled", { exact: true }).first().waitFor();
  expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
  await screenshot(page, "task-390");
  const { state } = await fixture.client.getRun({ params: { runId: run.runId } });
  expect(state).toBe("exited");
  await page.getByRole("link", { name: "All tasks" }).click();
  await page.getByRole("list", { name: "Tasks" }).waitFor();
  await screenshot(page, "tasks-390");
  expect(problems).toEqual([]);
});

const MANY = 10_000;

test.skipIf(!hasBrowser)("10,000 tasks are read page by page, with few of them in the document", async () => {
  for (let done = 0; done < MANY; done += 200)
    await Promise.all(
      Array.from({ length: 200 }, (_, at) =>
        fixture.client.createTask({ body: { label: `import ${done + at}`, notify: "silent" } }),
      ),
    );
  const { page, problems, requests } = await openView(browser, fixture.client, "/tasks?work=external");
  const list = page.getByRole("list", { name: "Tasks" });
  await list
    .getByText(/^import 99\d\d$/)
    .first()
    .waitFor();
  expect(requests.filter((each) => each.includes("/v1/tasks")).length).toBeLessThan(5);
  const first = list.getByText(/^import \d\d?$/).first();
  await waitFor("the oldest task", async () => {
    await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)");
    expect(await list.getByRole("listitem").count()).toBeLessThan(100);
    return (await first.count()) > 0;
  });
  await page.evaluate("scrollTo(0, 0)");
  await list
    .getByText(/^import 99\d\d$/)
    .first()
    .waitFor();
  const { tasks } = await fixture.client.listTasks({ query: { limit: 1 } });
  const params = { id: tasks[0]?.taskId ?? "" };
  await fixture.client.taskProgress({ params, body: { text: "it moves" } });
  await list.getByText("it moves").waitFor();
  expect(problems).toEqual([]);
});
