import { expect, test } from "vitest";
import { createClient } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { SCRIPTED_AGENT } from "../../support/agents/scripted-agent.js";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";

const shared = gatewayAndCliForFile();

test("acp spawn gives the session of an agent its exec rules, in the order of the options", async () => {
  const { code, stdout } = await shared.batchCli.holdfast(
    ...["acp", "spawn", "--agent-command", SCRIPTED_AGENT, "--name", "ruled"],
    ...["--exec-deny", "rm ...", "--exec-allow", "echo 'a b' ...", "--exec-ask", "*"],
  );
  expect(code).toBe(0);
  const client = await shared.gatewayFixture.client();
  const { session } = await client.sessionStatus({ params: { id: stdout.trim() } });
  expect(session.execRules).toEqual([
    { effect: "deny", executable: "rm", args: ["..."] },
    { effect: "allow", executable: "echo", args: ["a b", "..."] },
    { effect: "ask" },
  ]);
  const other = await shared.batchCli.holdfast(
    ...["acp", "spawn", "--agent-command", SCRIPTED_AGENT, "--name", "ruled", "--exec-allow", "*"],
  );
  expect(other).toMatchObject({ code: 1, stdout: "" });
  expect(other.stderr).toContain("with another execRules");
  await client.acpClose({ params: { id: session.id } });
});

test("a session cannot give its child exec rules of its own: the child has those of its parent", async () => {
  const client = await shared.gatewayFixture.client();
  const rules = [{ effect: "allow" as const }];
  const { token } = await client.openSession({ body: { key: "parent", execRules: rules } });
  const own = createClient({ socketPath: gatewaySocketPath(shared.gatewayFixture.home), token });
  const body = {
    argv: ["/bin/sh", "-c", SCRIPTED_AGENT],
    cwd: shared.gatewayFixture.home,
    key: "parent/child",
  };
  await expect(own.acpSpawn({ body: { ...body, execRules: [{ effect: "allow" }] } })).rejects.toMatchObject({
    code: "BAD_INPUT",
  });
  const { session }: ResponseOf<"acpSpawn"> = await own.acpSpawn({ body });
  const status = await client.sessionStatus({ params: { id: session.sessionId } });
  expect(status.session.execRules).toEqual(rules);
  await client.acpClose({ params: { id: session.sessionId } });
});
