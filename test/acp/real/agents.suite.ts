import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { agentsOf } from "../../../src/agents/catalogue.js";
import { until } from "../../until.js";
import { drive, type Driven } from "../driven.js";
import type { FakeModel } from "../model/server.js";
import { LEGEND, living, NASTY, NASTY_THEN_DONE } from "./nasty-tree.js";
import { recipes } from "./recipes.js";
import { settle } from "./settle.js";

/** How long a tool's processes are given to go away by themselves. */
const SETTLE_MS = 4_000;
const SLOWLY = 120_000;

/** What is done in mid-turn, with the tool's foreground command running. */
const actions: Readonly<Record<string, (agent: Driven, turn: Promise<string>) => Promise<unknown>>> = {
  cancel: async (agent, turn) => {
    await agent.cancel();
    await Promise.race([turn, sleep(SETTLE_MS)]);
  },
  "SIGTERM root": async ({ adapter }) => process.kill(adapter.run.rootPid ?? 0, "SIGTERM"),
  "SIGKILL root": async ({ adapter }) => process.kill(adapter.run.rootPid ?? 0, "SIGKILL"),
  close: ({ adapter }) => adapter.close(),
};

const table: Record<string, Record<string, string>> = {};
afterAll(() => {
  console.log(`alive after the action, and after the run's own end (${LEGEND})`);
  console.table(table);
});

async function start(name: string): Promise<{ agent: Driven; model: FakeModel }> {
  const { home, model, inherit } = await settle(name);
  const argv = agentsOf().get(name)?.acp?.argv ?? [];
  const agent = await drive(argv, { rules: [{ effect: "allow" }], inherit, cwd: home });
  await agent.open({ cwd: home, initializeMs: SLOWLY, newMs: SLOWLY });
  return { agent, model };
}

for (const name of Object.keys(recipes)) {
  test(
    `${name}: a whole turn with a tool, then another by the same process; nothing outlives the close`,
    async () => {
      const { agent, model } = await start(name);
      model.script.command = NASTY_THEN_DONE;
      model.script.text = "The tool has run.";
      const turn = agent.beginTurn();
      expect(await agent.prompt(SLOWLY)).toBe("end_turn");
      expect(turn.text.text).toContain("The tool has run.");
      expect(turn.tools.map(({ status }) => status)).toEqual(["completed"]);
      const left = living();
      model.script.command = null;
      model.script.text = "Once more.";
      const second = agent.beginTurn();
      expect(await agent.prompt(SLOWLY)).toBe("end_turn");
      expect(second.text.text).toContain("Once more.");
      await agent.adapter.close();
      await agent.gone();
      note(name, "turn end", left);
    },
    SLOWLY,
  );

  test.each(Object.entries(actions))(
    `${name}: %s in mid-turn`,
    async (action, act) => {
      const { agent, model } = await start(name);
      model.script.command = NASTY;
      const turn = agent.prompt(SLOWLY);
      turn.catch(() => undefined);
      await until("all of the tree lives", () => living() === "Fbnste", SLOWLY);
      await act(agent, turn);
      const pid = agent.adapter.run.rootPid;
      await Promise.race([agent.adapter.ended, sleep(SETTLE_MS)]);
      const left =
        living() +
        (agent.adapter.run.state === "running" ? ` (adapter ${pid === null ? "gone" : "lives"})` : "");
      await agent.adapter.close();
      await agent.gone();
      note(name, action, left);
    },
    SLOWLY,
  );
}

function note(name: string, action: string, left: string): void {
  const after = living();
  (table[name] ??= {})[action] = `${left.trim() || "-"} → ${after || "-"}`;
  expect(after).toBe("");
}
