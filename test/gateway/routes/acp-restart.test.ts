import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import { clientAgent, misbehavingAgent, shellAgent } from "../../support/agents/acp-fixture.js";
import { parseAnswers } from "../../support/agents/client-agent.js";
import {
  killGateway,
  startGatewayProcess,
  temporaryHomeWithBystander,
  waitUntilStopped,
} from "../../support/gateway/gateway-process.js";
import { waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { repetitions } from "../../support/scale.js";
import { findProcessesOfRun } from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const TURNS = repetitions(1, 40);
const UPDATES = 3_000;
/** Number of agent operations, and of kills of the gateway meanwhile. */
const ROUNDS = repetitions(2, 12);

async function allUpdates(client: GatewayClient, id: string): Promise<ResponseOf<"acpWatch">["updates"]> {
  const all = [];
  for (let after = 0; ;) {
    const page = await client.acpWatch({ params: { id }, query: { after, limit: 1_000 } });
    if (page.updates.length === 0) return all;
    all.push(...page.updates);
    after = page.after;
  }
}

test(
  "a turn completes once, without lost or doubled updates, when its gateway is killed repeatedly",
  { timeout: 600_000 },
  async () => {
    const home = await temporaryHomeWithBystander();
    let { client, pid } = await startGatewayProcess(home);
    const { session } = await client.acpSpawn({
      body: { argv: misbehavingAgent("long-turn"), cwd: home, key: "one" },
    });
    const params = { id: "one" };
    for (let turn = 0; turn < TURNS; turn++) {
      await client.acpPrompt({ params, body: { text: `turn ${turn}`, wait: false } });
      for (let kills = 0; kills < 2; kills++) {
        await sleep(Math.random() * (kills === 0 ? 400 : 60));
        killGateway(pid);
        ({ client, pid } = await startGatewayProcess(home));
      }
      const last = await waitFor("the turn has ended", async () => {
        const [newest] = (await client.acpHistory({ params })).turns;
        return newest?.state === "ended" && newest;
      });
      expect(last).toMatchObject({ ordinal: turn + 1, outcome: "completed", stopReason: "end_turn" });
    }
    const updates = await allUpdates(client, "one");
    expect(updates.map(({ seq }) => seq)).toEqual(updates.map((_, at) => at + 1));
    const numbers = updates
      .filter(({ type }) => type === "update")
      .map(({ data }) => (data as { content: { text: string } }).content.text);
    const once = Array.from({ length: UPDATES }, (_, at) => `${at}`);
    expect(numbers).toEqual(Array.from({ length: TURNS }, () => once).flat());
    const ends = updates.filter(
      ({ type, data }) => type === "turn" && (data as { state: string }).state === "ended",
    );
    expect(ends).toHaveLength(TURNS);
    const shown = await client.acpShow({ params });
    // The same process all the time.
    expect(shown.session.runId).toBe(session.runId);
    await client.acpClose({ params });
    expect(await waitForRunEnd(client, session.runId ?? "")).toMatchObject({ emptiness: "proven" });
    expect(await findProcessesOfRun(session.runId ?? "")).toEqual([]);
  },
);

test(
  "file and terminal requests of an agent are done and answered once when the gateway is killed during them",
  { timeout: 120_000 },
  async () => {
    const home = await temporaryHomeWithBystander();
    const log = join(home, "agent.log");
    const [go, file] = [join(home, "go"), join(home, "file")];
    let { client, pid } = await startGatewayProcess(home);
    const last = { terminalId: "last" };
    const rounds = Array.from({ length: ROUNDS }, (_, at) => [
      ["terminal/create", { command: "sh", args: ["-c", `echo ${at}; sleep 0.05`] }],
      ["fs/write_text_file", { path: file, content: `${at}` }],
      ["terminal/wait_for_exit", last],
      ["terminal/output", last],
      ["fs/read_text_file", { path: file }],
      ["terminal/release", last],
    ]).flat();
    const waited = { command: "sh", args: ["-c", `while [ ! -e ${go} ]; do sleep 0.05; done`] };
    const steps = [...rounds, ["terminal/create", waited], ["terminal/wait_for_exit", last]];
    const { session } = await client.acpSpawn({
      body: {
        argv: [...clientAgent],
        cwd: home,
        key: "one",
        environment: { PATH: process.env["PATH"] ?? "", AGENT_LOG: log },
        permissions: "approve-all",
        client: { files: "read-write", terminals: true },
        prompt: JSON.stringify(steps),
      },
    });
    const answers = (): string[] => readFileSync(log, "utf8").match(/^answered .*$/gm) ?? [];
    for (let kills = 0; kills < ROUNDS - 1; kills++) {
      await sleep(Math.random() * 300);
      killGateway(pid);
      ({ client, pid } = await startGatewayProcess(home));
    }
    await waitFor("the last command is waited for", async () => {
      const { updates } = await client.acpWatch({ params: { id: "one" }, query: { limit: 1_000 } });
      const created = answers().length === steps.length - 1;
      return created && JSON.stringify(updates.at(-1)?.data).includes("terminal/wait_for_exit");
    });
    killGateway(pid);
    ({ client, pid } = await startGatewayProcess(home));
    writeFileSync(go, "");
    const turn = await waitFor("the turn has ended", async () => {
      const [newest] = (await client.acpHistory({ params: { id: "one" } })).turns;
      return newest?.state === "ended" && newest;
    });
    expect(turn).toMatchObject({ outcome: "completed" });
    expect(answers()).toEqual(steps.map((_, at) => `answered ask-${at + 1}`));
    const said = parseAnswers(turn);
    const ended = { exitCode: 0, signal: null };
    for (let at = 0; at < ROUNDS; at++)
      expect(said.slice(at * 6 + 1, at * 6 + 6)).toEqual([
        {},
        ended,
        { output: `${at}\n`, truncated: false, exitStatus: ended },
        { content: `${at}` },
        {},
      ]);
    expect(said.at(-1)).toEqual(ended);
    const { runs } = await client.listRuns({ query: { all: "1" } });
    // One that a kill met before its first instruction is made again.
    const ran = runs.filter(({ exit }) => exit?.reason !== "spawn-error");
    expect(ran.filter(({ backendId }) => backendId === "acp-terminal")).toHaveLength(ROUNDS + 1);
    expect((await client.acpShow({ params: { id: "one" } })).session.runId).toBe(session.runId);
    await client.acpClose({ params: { id: "one" } });
    for (const { runId } of runs)
      expect(await waitForRunEnd(client, runId)).toMatchObject({ emptiness: "proven" });
  },
);

test(
  "an agent that ends while no gateway runs is interrupted; its queue continues; a close is finished",
  { timeout: 60_000 },
  async () => {
    const home = await temporaryHomeWithBystander();
    const first = await startGatewayProcess(home);
    const spawned = await first.client.acpSpawn({
      body: { argv: shellAgent("resume"), cwd: home, key: "one", prompt: "echo on my way; sleep 3106" },
    });
    const running = spawned.turn ?? expect.fail("no turn");
    const queued = await first.client.acpPrompt({
      params: { id: "one" },
      body: { text: "echo next", wait: false },
    });
    await waitFor("it has begun", async () => {
      const { updates } = await first.client.acpWatch({ params: { id: "one" } });
      return updates.some(({ data }) => (data as { sessionUpdate?: string }).sessionUpdate === "tool_call");
    });
    const { tree } = await first.client.acpShow({ params: { id: "one" } });
    const run = await first.client.getRun({ params: { runId: spawned.session.runId ?? "" } });
    expect(tree.processes.map(({ pid }) => pid)).toContain(run.root?.pid);
    killGateway(first.pid);
    // oxlint-disable-next-line no-restricted-properties -- the agent of this test, by the number its run has
    process.kill(run.root?.pid ?? 0, "SIGKILL");
    const second = await startGatewayProcess(home);
    const ended = (turnId: string) =>
      waitFor("the turn has ended", async () => {
        const { turns } = await second.client.acpHistory({ params: { id: "one" } });
        return turns.find((each) => each.turnId === turnId && each.state === "ended");
      });
    expect(await ended(running.turnId)).toMatchObject({ outcome: "interrupted", text: "on my way\n" });
    expect(await ended(queued.turn.turnId)).toMatchObject({ outcome: "completed", text: "next\n" });
    await second.client.acpClose({ params: { id: "one" } });
    for (const { runId } of (await second.client.listRuns({ query: { all: "1" } })).runs)
      expect(await waitForRunEnd(second.client, runId)).toMatchObject({ emptiness: "proven" });
  },
);

test(
  "a draining gateway waits for turns, not for agents; the next resumes them; one that terminates leaves no process",
  { timeout: 60_000 },
  async () => {
    const home = await temporaryHomeWithBystander();
    const first = await startGatewayProcess(home);
    const { session } = await first.client.acpSpawn({
      body: { argv: shellAgent(), cwd: home, key: "one", prompt: "sleep 0.2; echo first" },
    });
    await first.client.acpPrompt({ params: { id: "one" }, body: { text: "echo second", wait: false } });
    expect(await first.client.stop({ body: { runs: "drain", waitMs: 600_000 } })).toMatchObject({ left: 1 });
    await waitUntilStopped(home);
    const second = await startGatewayProcess(home);
    const { turns } = await second.client.acpHistory({ params: { id: "one" } });
    expect(turns.map(({ outcome, text }) => [outcome, text])).toEqual([
      ["completed", "second\n"],
      ["completed", "first\n"],
    ]);
    const { turn } = await second.client.acpPrompt({ params: { id: "one" }, body: { text: "echo third" } });
    expect(turn).toMatchObject({ outcome: "completed", text: "third\n" });
    const shown = await second.client.acpShow({ params: { id: "one" } });
    expect(shown.session.runId).toBe(session.runId);

    await second.client.acpPrompt({
      params: { id: "one" },
      body: { text: "echo $TMPDIR; sleep 3106", wait: false },
    });
    let tmp = "";
    await waitFor("it has said where", async () => {
      const { updates } = await second.client.acpWatch({ params: { id: "one" } });
      tmp =
        /\/\S*hf-acp-\w+/.exec(JSON.stringify(updates.filter(({ type }) => type === "update")))?.[0] ?? "";
      return existsSync(tmp);
    });
    expect(await second.client.stop({ body: { runs: "terminate" } })).toMatchObject({
      terminated: 1,
      left: 0,
    });
    await waitUntilStopped(home);
    expect(existsSync(tmp)).toBe(false);
    expect(await findProcessesOfRun(session.runId ?? "")).toEqual([]);
    const third = await startGatewayProcess(home);
    const [newest] = (await third.client.acpHistory({ params: { id: "one" } })).turns;
    expect(newest).toMatchObject({ state: "ended", outcome: "interrupted" });
    await third.client.acpClose({ params: { id: "one" } });
  },
);
