import { spawn } from "node:child_process";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, onTestFinished, test } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import { startGateway } from "../../../src/gateway/start-in-background.js";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import {
  livingParts,
  STUBBORN_TREE,
  STUBBORN_TREE_THEN_EXIT,
  TREE_LEGEND,
} from "../../support/agents/stubborn-tree.js";
import { waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { readProcess } from "../../support/live-processes.js";
import type { FakeLanguageModel } from "../../support/language-model/fake-language-model.js";
import { findProcessesOfRun } from "../../support/supervisor/real-supervisor.js";
import { removeStateDirectory } from "../../support/temporary-directory.js";
import { agentRecipes, nextMinute, prepareAgent } from "./agent-recipes.js";
import { waitFor } from "../../support/wait-for.js";

/** Time for the processes of a tool to exit by themselves. */
const SETTLE_MS = 3_000;
const SLOWLY = 120_000;
/** Its output proves that it was executed: some agents report a command that they refuse as completed. */
const TREE_WITH_OUTPUT = `${STUBBORN_TREE_THEN_EXIT}\nprintf tree-%s 42`;
const main = join(process.cwd(), "dist/cli/main.js");

type Turn = ResponseOf<"acpPrompt">["turn"];

/** A gateway of its own with one session of one real agent. */
class Scene {
  readonly agent: string;
  readonly home: string;
  readonly model: FakeLanguageModel;
  client: GatewayClient;
  /** The id of the session. */
  params = { id: "" };
  #pid: number;

  constructor(
    agent: string,
    home: string,
    model: FakeLanguageModel,
    { client, pid }: { client: GatewayClient; pid: number },
  ) {
    this.agent = agent;
    this.home = home;
    this.model = model;
    this.client = client;
    this.#pid = pid;
  }

  static async open(agent: string, settings = agentRecipes[agent]?.unconfined): Promise<Scene> {
    const state = await mkdtemp(join(tmpdir(), "hf-"));
    onTestFinished(() => removeStateDirectory(state));
    const { home, model, inherit: environment } = await prepareAgent(agent);
    const bystander = spawn("sleep", ["3199"], { stdio: "ignore" });
    onTestFinished(() => {
      expect(bystander.exitCode ?? bystander.signalCode, "the bystander").toBeNull();
      bystander.kill("SIGKILL");
    });
    const scene = new Scene(agent, state, model, await gateway(state));
    onTestFinished(() => scene.#leave());
    const body = { agent, cwd: home, environment, key: "one", permissions: "approve-all", settings } as const;
    const { session } = await scene.client.acpSpawn({ body });
    scene.params = { id: session.sessionId };
    return scene;
  }

  async killGateway(): Promise<void> {
    // oxlint-disable-next-line no-restricted-properties -- the gateway this test started, asked for its own number
    process.kill(this.#pid, "SIGKILL");
    const { client, pid } = await gateway(this.home);
    this.client = client;
    this.#pid = pid;
  }

  async root(): Promise<number> {
    const { session } = await this.client.acpShow({ params: this.params });
    const { root } = await this.client.getRun({ params: { runId: session.runId ?? "" } });
    return root?.pid ?? expect.fail("there is no agent");
  }

  async signalAgent(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    // oxlint-disable-next-line no-restricted-properties -- the agent of this test, by the number its run has
    process.kill(await this.root(), signal);
  }

  async ask(text: string): Promise<Turn> {
    return (await this.client.acpPrompt({ params: this.params, body: { text } })).turn;
  }

  /** Starts a turn, and waits until all processes of the tree run. */
  async begin(): Promise<Turn> {
    this.model.script.command = STUBBORN_TREE;
    const { turn } = await this.client.acpPrompt({ params: this.params, body: { text: "go", wait: false } });
    await waitFor("all processes of the tree run", () => livingParts() === "Fbnste", SLOWLY);
    return turn;
  }

  async last(): Promise<Turn> {
    const { turns } = await this.client.acpHistory({ params: this.params, query: { limit: 1 } });
    return turns[0] ?? expect.fail("there is no turn");
  }

  /** Closes the session, and asserts that every run is proven empty. */
  async close(): Promise<void> {
    const { session } = await this.client.acpClose({ params: this.params });
    expect(session.state).toBe("closed");
    for (const { runId } of (await this.client.listRuns({ query: { all: "1" } })).runs) {
      expect(await waitForRunEnd(this.client, runId)).toMatchObject({ emptiness: "proven" });
      expect(await findProcessesOfRun(runId)).toEqual([]);
    }
  }

  async #leave(): Promise<void> {
    await this.client.stop({ body: { runs: "terminate" } }).catch(() => undefined);
    while ((await reachGateway(this.home).catch(() => null)) !== null) await sleep(20);
  }
}

async function gateway(home: string): Promise<{ client: GatewayClient; pid: number }> {
  await startGateway(home, main);
  const reached = (await reachGateway(home)) ?? expect.fail("it does not answer");
  return { client: reached.client, pid: reached.status.pid };
}

/** The processes that the tool of a turn leaves, by agent: at the turn's end, after a cancel, and after SIGTERM. */
const LEFT: Readonly<Record<string, Readonly<Record<"end" | "cancel" | "SIGTERM", string>>>> = {
  opencode: { end: "bnste", cancel: "ste", SIGTERM: "t" },
  codex: { end: "se", cancel: "se", SIGTERM: "" },
  gemini: { end: "nse", cancel: "e", SIGTERM: "Fbnste" },
  qwen: { end: "nse", cancel: "se", SIGTERM: "" },
  claude: { end: "bnste", cancel: "e", SIGTERM: "" },
  copilot: { end: "bnste", cancel: "ste", SIGTERM: "t" },
  pi: { end: "bnste", cancel: "se", SIGTERM: "" },
};

/** The processes that are left when the agent has ended those that it ends. */
async function leftBy(agent: string, action: "end" | "cancel" | "SIGTERM"): Promise<string> {
  const expected = LEFT[agent]?.[action];
  await waitFor(() => livingParts() === expected, SLOWLY / 4).catch(() => undefined);
  await sleep(SETTLE_MS);
  expect(livingParts()).toBe(expected);
  return livingParts();
}

/** Actions in the middle of a turn, while the foreground command of the tool runs. Each resolves with the live processes after it. */
const actions: Readonly<Record<string, (scene: Scene) => Promise<string>>> = {
  cancel: async (scene) => {
    const root = await scene.root();
    const { turn } = await scene.client.acpCancel({ params: scene.params });
    expect(turn?.outcome).toMatch(/^cancel/);
    const left = await leftBy(scene.agent, "cancel");
    expect(turn?.audit?.reaped).toBe(false);
    expect(await scene.root()).toBe(root);
    return left;
  },
  "cancel, reap": async (scene) => {
    const root = await scene.root();
    const { turn } = await scene.client.acpCancel({ params: scene.params, body: { reapTools: true } });
    const left = livingParts();
    expect(left).toBe("");
    expect(turn?.audit).toMatchObject({ reaped: true, survivors: [] });
    scene.model.script.command = null;
    scene.model.script.text = "Once more.";
    const next = await scene.ask("again");
    expect(next).toMatchObject({ outcome: "completed" });
    expect(next.text).toContain("Once more.");
    if (turn?.outcome === "cancelled") expect(await scene.root()).toBe(root);
    return left;
  },
  "SIGTERM agent": async (scene) => {
    const root = await scene.root();
    await scene.signalAgent("SIGTERM");
    const left = await leftBy(scene.agent, "SIGTERM");
    if (scene.agent === "gemini") expect(readProcess(root), "it ignores SIGTERM").not.toBeNull();
    return left;
  },
  "SIGKILL agent": async (scene) => {
    await scene.signalAgent("SIGKILL");
    await waitFor("no process of the tree runs", () => livingParts() === "", SLOWLY);
    while ((await scene.last()).state !== "ended") await sleep(50);
    expect(await scene.last()).toMatchObject({ outcome: "interrupted" });
    scene.model.script.command = null;
    scene.model.script.text = "Back again.";
    if (scene.agent === "gemini") await nextMinute();
    const next = await scene.ask("again");
    expect(next).toMatchObject({ outcome: "completed", contextLost: false });
    expect(next.text).toContain("Back again.");
    return livingParts();
  },
  "SIGKILL gateway": async (scene) => {
    const root = await scene.root();
    await scene.killGateway();
    const left = livingParts();
    expect(left).toBe("Fbnste");
    expect(await scene.last()).toMatchObject({ state: "running" });
    expect(await scene.root()).toBe(root);
    const { turn } = await scene.client.acpCancel({ params: scene.params, body: { reapTools: true } });
    expect(turn?.audit).toMatchObject({ reaped: true, survivors: [] });
    expect(livingParts()).toBe("");
    return left;
  },
  close: async (scene) => {
    await scene.close();
    return livingParts();
  },
};

const table: Record<string, Record<string, string>> = {};
afterAll(() => {
  console.log(`alive after the action, and after the session's close (${TREE_LEGEND})`);
  console.table(table);
});

for (const name of Object.keys(agentRecipes)) {
  test(
    `${name}: a whole turn with a tool, then another by the same process; nothing outlives the close`,
    async () => {
      const scene = await Scene.open(name);
      const root = await scene.root();
      scene.model.script.command = TREE_WITH_OUTPUT;
      scene.model.script.text = "The tool has run.";
      const turn = await scene.ask("go");
      expect(turn).toMatchObject({ outcome: "completed", stopReason: "end_turn" });
      expect(turn.text).toContain("The tool has run.");
      expect(turn.toolCalls.map(({ status }) => status)).toEqual(["completed"]);
      expect(scene.model.hasReceived("tree-42"), "the output of the tool").toBe(true);
      const left = await leftBy(name, "end");
      scene.model.script.command = null;
      scene.model.script.text = "Once more.";
      expect((await scene.ask("again")).text).toContain("Once more.");
      expect(await scene.root()).toBe(root);
      await scene.close();
      note(name, "turn end", left);
    },
    SLOWLY,
  );

  test.each(Object.entries(actions))(
    `${name}: %s in mid-turn`,
    async (action, act) => {
      const scene = await Scene.open(name);
      await scene.begin();
      const left = await act(scene);
      await scene.close();
      note(name, action, left);
    },
    SLOWLY,
  );
}

test(
  "codex: in the mode that it starts in, its sandbox ends what a command leaves",
  async () => {
    const scene = await Scene.open("codex", { mode: "agent" });
    scene.model.script.command = TREE_WITH_OUTPUT;
    expect(await scene.ask("go")).toMatchObject({ outcome: "completed" });
    expect(scene.model.hasReceived("tree-42"), "the output of the tool").toBe(true);
    await waitFor("no process of the tree runs", () => livingParts() === "", SLOWLY / 4);
    await scene.close();
  },
  SLOWLY,
);

function note(name: string, action: string, left: string): void {
  const after = livingParts();
  (table[name] ??= {})[action] = `${left || "-"} → ${after || "-"}`;
  expect(after).toBe("");
}
