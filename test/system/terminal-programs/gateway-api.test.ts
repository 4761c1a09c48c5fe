import { expect, test } from "vitest";
import { gatewayForFile, waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const gateway = gatewayForFile();

test("a REPL over the API evaluates, recalls, completes, is resized, and seems to wait for input", async () => {
  const { run: params } = await gateway.client.exec({
    body: {
      argv: [process.execPath],
      pty: true,
      background: true,
      env: { TERM: "xterm", NODE_REPL_HISTORY: "", NO_COLOR: "1" },
    },
  });
  const rows = async (): Promise<readonly string[]> => (await gateway.client.screen({ params })).rows;
  const keys = (...words: string[]): Promise<unknown> =>
    gateway.client.sendKeys({ params, body: { keys: words } });
  const shows = (what: RegExp): Promise<unknown> =>
    waitFor(`${what} on the screen`, async () => what.test((await rows()).join("\n")));

  await shows(/^> ?$/m);
  await waitFor("it seems to wait for input", async () => {
    const { waitingForInput } = await gateway.client.poll({ params });
    return waitingForInput.seems;
  });
  await gateway.client.paste({ params, body: { text: "'a'.repeat(5)", submit: true } });
  await shows(/'aaaaa'/);
  await keys("Up");
  await shows(/repeat\(5\)$[^>]*> 'a'.repeat\(5\)/m);
  await keys("C-u", "literal:globalThis.setTimeo", "Tab");
  await shows(/globalThis.setTimeout/);
  await keys("C-u");
  await waitFor("the line is empty", async () => (await rows()).findLast((row) => row !== "") === ">");
  await gateway.client.resize({ params, body: { rows: 10, cols: 40 } });
  // Again until the program has handled the signal of its terminal.
  await waitFor("the program knows its new size", async () => {
    await keys("literal:process.stdout.columns", "Enter");
    return /^40$/m.test((await rows()).join("\n"));
  });
  expect(await rows()).toHaveLength(10);
  await keys("C-d");
  expect((await waitForRunEnd(gateway.client, params.runId)).exit).toMatchObject({ code: 0 });
});
