import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openAdapterFixture } from "../support/agents/adapter-fixture.js";
import { waitFor } from "../support/wait-for.js";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const example = at("../../node_modules/acp-sdk-1/dist/examples/agent.js");
const argv = [process.execPath, "--import", at("../support/agents/programs/fast-timers.mjs"), example];

const EDITS = [{ effect: "allow" as const, kind: "edit" as const, title: "Modifying * file" }];

test("the SDK's example agent completes a turn with a permission that a rule allows", async () => {
  const agent = await openAdapterFixture(argv, { rules: EDITS });
  await agent.open();
  const turn = agent.beginTurn();
  expect(await agent.prompt()).toBe("end_turn");
  expect(turn.text.text).toMatch(/^I'll help you with that.*have been applied\.$/s);
  expect(turn.tools).toEqual([
    { id: "call_1", title: "Reading project files", kind: "read", status: "completed" },
    { id: "call_2", title: "Modifying critical configuration file", kind: "edit", status: "completed" },
  ]);
  await agent.adapter.close();
  await agent.waitForExit();
});

test("without a rule a request is denied, and the process of a cancelled turn serves the next turn", async () => {
  const agent = await openAdapterFixture(argv);
  await agent.open();
  const pid = agent.adapter.run.rootPid;
  const cancelled = agent.prompt();
  const first = agent.beginTurn();
  await waitFor("the turn has begun", () => first.tools.length > 0);
  await agent.cancel();
  expect(await cancelled).toBe("cancelled");
  const turn = agent.beginTurn();
  expect(await agent.prompt()).toBe("end_turn");
  expect(turn.text.text).toContain("I'll skip the configuration update");
  expect(agent.adapter.run.rootPid).toBe(pid);
  await agent.adapter.close();
  await agent.waitForExit();
});
