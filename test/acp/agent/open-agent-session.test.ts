import { expect, test } from "vitest";
import { initialize } from "../../../src/acp/agent/open-agent-session.js";
import { NO_CLIENT_ACCESS, toClientCapabilities } from "../../../src/config/client-access.js";
import { ConnectionFixture, flushPending } from "../wire/connection-fixture.js";

test.each([1, 2, 0, 1.5, -1])("only version 1 of the protocol is accepted: %s", async (protocolVersion) => {
  const fixture = new ConnectionFixture();
  const clientCapabilities = toClientCapabilities(NO_CLIENT_ACCESS);
  const initialized = initialize(
    fixture.connection,
    { name: "holdfast", version: "0" },
    { deadlineMs: 1_000, clientCapabilities },
  );
  initialized.catch(() => undefined);
  await flushPending();
  expect(fixture.sent[0]).toMatchObject({
    method: "initialize",
    params: { protocolVersion: 1, clientCapabilities: { terminal: false } },
  });
  await fixture.receive({ id: 1, result: { protocolVersion, agentCapabilities: { loadSession: true } } });
  if (protocolVersion === 1)
    return expect(await initialized).toMatchObject({ agentCapabilities: { loadSession: true } });
  await expect(initialized).rejects.toMatchObject({ code: "ACP_CLOSED", reason: "wrong-version" });
  expect(await fixture.connection.closed).toMatchObject({ reason: "wrong-version" });
});
