import { chmodSync, existsSync, mkdirSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { scriptedAgent } from "../../support/agents/acp-fixture.js";
import { planStep, scriptedPrompt, toolStep } from "../../support/agents/scripted-agent.js";
import { browserForFile, hasBrowser } from "../../support/dashboard/browser.js";
import { expectNoOverflow, openView } from "../../support/dashboard/dashboard-page.js";
import { docImage } from "../../support/dashboard/doc-images.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const PROMPT =
  "The total of the cart is wrong when an item is in it twice. Fix that, and run the tests of the cart.";

const DIFF = {
  type: "diff",
  path: "src/cart.ts",
  oldText:
    "export function total(items: Item[]) {\n  return items.reduce((sum, item) => sum + item.price, 0);\n}\n",
  newText:
    "export function total(items: Item[]) {\n  return items.reduce((sum, item) => sum + item.price * item.count, 0);\n}\n",
};

const STEPS = scriptedPrompt(
  { think: "The total ignores how many of an item are in the cart." },
  planStep(
    ["Find where the total is computed", "completed"],
    ["Multiply by the count", "completed"],
    ["Run the tests of the cart", "in_progress"],
  ),
  toolStep("read", "completed", { title: "Read src/cart.ts", kind: "read" }),
  toolStep("edit", "in_progress", { title: "Edit src/cart.ts", kind: "edit" }),
  toolStep("edit", "completed", { content: [DIFF] }),
  { say: "The total now counts each item as often as it is in the cart. I run the tests to be sure." },
  {
    ask: { title: "npm test -- cart", kind: "execute", rawInput: { command: ["npm", "test", "--", "cart"] } },
  },
);

/** Programs under the names that people know, so that the pictures show what people run. */
const PROGRAMS: Readonly<Record<string, string>> = {
  npm: `#!/bin/sh
case "$*" in
  "run dev") printf 'VITE ready in 412 ms\\n\\n  Local: http://localhost:5173/\\n'; esbuild & vite & wait ;;
  "run lint") printf 'src/cart.ts:41:7  error  total is never used\\n\\n1 problem\\n'; exit 1 ;;
  "run build") printf 'built in 1.92s\\n' ;;
  *) tests & wait ;;
esac
`,
  vite: "#!/bin/sh\nwhile :; do sleep 0.2; done\n",
  esbuild: "#!/bin/sh\nexec sleep 3600\n",
  tests: `#!/bin/sh
for suite in cart checkout orders payments invoices; do
  printf '\\033[32m  PASS \\033[0m src/%s.test.ts \\033[2m(%s tests)\\033[0m\\n' "$suite" $(( $(printf %s "$suite" | wc -c) * 3 ))
done
printf '\\033[33m  RUNS \\033[0m src/search.test.ts\\n\\n\\033[1mTests:\\033[0m 105 passed, 1 running\\n'
worker & worker &
while :; do sleep 0.1; done
`,
  worker: "#!/bin/sh\nwhile :; do i=0; while [ $i -lt 4000 ]; do i=$((i + 1)); done; sleep 0.1; done\n",
  pytest:
    "#!/bin/sh\nprintf 'collected 214 items\\n\\ntests/test_import.py ......\\n'; while :; do sleep 0.3; done\n",
  "coding-agent": `#!/usr/bin/env node
const { spawn } = require("node:child_process");
const [program, ...args] = ${JSON.stringify(scriptedAgent)};
const agent = spawn(program, args, { stdio: ["pipe", "inherit", "inherit"] });
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.method === "session/prompt") message.params.prompt = [{ type: "text", text: STEPS }];
  agent.stdin.write(JSON.stringify(message) + "\\n");
}).on("close", () => agent.stdin.end());
const STEPS = ${JSON.stringify(STEPS)};
`,
};

const directory = realpathSync(mkdtempSync(join(tmpdir(), "hf-shop-")));
const bin = join(directory, "bin");
/** A directory whose name says nothing about this machine. */
const shop = existsSync("/srv") ? "/srv" : directory;
mkdirSync(bin);
for (const [name, text] of Object.entries(PROGRAMS)) {
  writeFileSync(join(bin, name), text);
  chmodSync(join(bin, name), 0o755);
}
afterAll(() => rm(directory, { recursive: true, force: true }));
process.env["PATH"] = `${bin}:/usr/local/bin:/usr/bin:/bin`;

const fixture = gatewayForFile({ config: parseConfig('[[exec]]\neffect = "ask"\n', "") });
const browser = browserForFile();

/** Some of everything, as on the machine of a developer with an agent. */
async function fill() {
  const { client } = fixture;
  const run = (argv: readonly string[], more: object = {}) =>
    client.exec({ body: { argv: [...argv], cwd: shop, background: true, ...more } });
  await client.exec({ body: { argv: ["npm", "run", "build"], cwd: shop } });
  await client.exec({ body: { argv: ["npm", "run", "lint"], cwd: shop } });
  await run(["npm", "run", "dev"], { kind: "service", labels: { name: "web" } });
  await run(["pytest", "-q", "tests"], { labels: { name: "import" } });
  const { run: tests } = await run(["npm", "test"], { pty: true, labels: { name: "tests" } });
  const { session } = await client.acpSpawn({
    body: { argv: ["coding-agent", "--acp"], cwd: shop, key: "fix-cart-total" },
  });
  await client.acpPrompt({
    params: { id: session.sessionId },
    body: { text: PROMPT, wait: false },
  });
  await waitFor("the agent asks", async () => (await client.acpPermissions()).permissions.length === 1);
  const { token } = await client.openSession({ body: { key: "release" } });
  const argv = ["git", "push", "--follow-tags", "origin", "main"];
  void fixture
    .as(token)
    .exec({ body: { argv, cwd: shop } })
    .catch(() => undefined);
  await waitFor("a command waits", async () => (await client.listApprovals()).approvals.length === 1);
  const { approvals } = await client.listApprovals();
  return { testsId: tests.runId, sessionId: session.sessionId, approvalId: approvals[0]?.id ?? "" };
}

test.skipIf(!hasBrowser)("the images of the docs show the dashboard as it is", async () => {
  const { testsId, sessionId, approvalId } = await fill();
  const now = await openView(browser, fixture.client, "/?processes=1", { height: 860 });
  await now.page.getByText("worker").first().waitFor();
  await now.page.getByRole("list", { name: "Agents" }).getByText("processes").first().waitFor();
  await now.page
    .getByText(/^[\d.]*[1-9]\d* %$/)
    .first()
    .waitFor();
  await docImage(now.page, "now.webp");
  await now.page.setViewportSize({ width: 390, height: 844 });
  await expectNoOverflow(now);
  await docImage(now.page, "now-phone.webp");

  const run = await openView(browser, fixture.client, `/runs/${testsId}`, { height: 900, dark: true });
  await run.page.locator(".xterm-rows").getByText("search.test.ts").waitFor();
  await run.page
    .getByText(/^[\d.]*[1-9]\d* %$/)
    .first()
    .waitFor();
  await run.page.getByRole("list", { name: "Process tree" }).getByText("worker").first().waitFor();
  await docImage(run.page, "run.webp");

  const session = await openView(browser, fixture.client, `/sessions/${sessionId}`, { height: 1_180 });
  await session.page.getByText("I run the tests to be sure").waitFor();
  await session.page.getByRole("button", { name: "Allow", exact: true }).waitFor();
  await docImage(session.page, "session.webp");

  const approval = await openView(browser, fixture.client, `/approvals/${approvalId}`, { height: 700 });
  await approval.page.getByRole("button", { name: "Allow once" }).waitFor();
  await docImage(approval.page, "approval.webp");
  for (const { problems } of [now, run, session, approval]) expect(problems).toEqual([]);
});
