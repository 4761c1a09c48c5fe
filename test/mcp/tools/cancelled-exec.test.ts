import { expect, test } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import { connectSession } from "../../../src/mcp/session/connect-session.js";
import type { ToolCall } from "../../../src/mcp/tool.js";
import { execTool } from "../../../src/mcp/tools/exec.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";

const fixture = gatewayForFile();

/** A call that is cancelled when the gateway has answered that its command continues as a task. */
async function cancelAtYield(key: string, isStopping: () => boolean): Promise<string> {
  const { token } = await fixture.client.openSession({ body: { key, execRules: [{ effect: "allow" }] } });
  const access = { address: { socketPath: fixture.socketPath, token }, cwd: fixture.home, environment: null };
  const connection = connectSession(access, { isStopping });
  const cancel = new AbortController();
  const exec: GatewayClient["exec"] = async (input) => {
    const answer = await connection.client.exec(input);
    cancel.abort();
    return answer;
  };
  const call: ToolCall = {
    ...connection,
    client: { ...connection.client, exec },
    ...{ signal: cancel.signal, reportProgress: null },
  };
  await execTool.call({ command: "sleep 300", yieldMs: 10 }, call);
  const { runs } = await fixture.as(token).listRuns({ query: { all: "1" } });
  expect(runs).toHaveLength(1);
  return runs[0]?.state ?? "";
}

test("a call that is cancelled when its command has just become a task stops the command", async () => {
  expect(await cancelAtYield("cancelled", () => false)).toBe("exited");
});

test("a gateway that stops, and so ends the call, leaves the command to the next gateway", async () => {
  expect(await cancelAtYield("stopping", () => true)).toBe("running");
});
