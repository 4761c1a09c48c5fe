import { expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { eachTransport } from "../../support/mcp/each-transport.js";
import { callTool } from "../../support/mcp/mcp-clients.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile({ config: parseConfig('[gateway]\nlisten = "127.0.0.1:0"', "c.toml") });

const transports = eachTransport(fixture, "ask");

const pending = async () => (await fixture.client.listApprovals()).approvals;

/** The id of the question to the operator. */
async function waitForQuestion(): Promise<string> {
  await waitFor("the operator is asked", async () => (await pending()).length === 1);
  return (await pending())[0]?.id ?? "";
}

test.each(transports)("a call waits for the operator, whose answer decides, over $name", async ({ open }) => {
  const client = await open();
  for (const verdict of ["allow", "deny"] as const) {
    const call = callTool(client, "exec", { argv: ["echo", "asked"] });
    const id = await waitForQuestion();
    await fixture.client.decideApproval({ params: { id }, body: { verdict } });
    const { isError, text } = await call;
    expect([isError, text]).toEqual(
      verdict === "allow"
        ? [false, expect.stringContaining("asked\n")]
        : [true, expect.stringMatching(/^EXEC_DENIED: .*denied it/)],
    );
  }
  await client.close();
});

test.each(transports)("a call that is cancelled is no longer a question, over $name", async ({ open }) => {
  const client = await open();
  const cancel = new AbortController();
  const call = callTool(client, "exec", { argv: ["echo", "asked"] }, { signal: cancel.signal });
  call.catch(() => undefined);
  await waitForQuestion();
  cancel.abort();
  await expect(call).rejects.toThrow();
  await waitFor("the question is withdrawn", async () => (await pending()).length === 0);
  await client.close();
});
