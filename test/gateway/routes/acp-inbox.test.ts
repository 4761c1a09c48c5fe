import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import {
  startGatewayProcess,
  killGateway,
  temporaryHomeWithBystander,
} from "../../support/gateway/gateway-process.js";
import { waitFor } from "../../support/wait-for.js";

const ROUNDS = process.env["HOLDFAST_SOAK"] === "1" ? 60 : 3;

function receivedPrompts(home: string): string[] {
  const prompts = readFileSync(join(home, "log"), "utf8").match(/(?<=^received ).*$/gm) ?? [];
  return prompts.map((prompt) => JSON.parse(prompt) as string);
}

function spawnEcho(client: GatewayClient, home: string, body: object = {}) {
  const environment = { PATH: process.env["PATH"] ?? "", AGENT_LOG: join(home, "log") };
  return client.acpSpawn({ body: { argv: shellAgent("echo"), cwd: home, key: "one", environment, ...body } });
}

test(
  "each message is delivered once, in order, and acknowledged when the gateway is killed repeatedly",
  { timeout: 120_000 },
  async () => {
    const home = await temporaryHomeWithBystander();
    let { client, pid } = await startGatewayProcess(home);
    await spawnEcho(client, home);
    const params = { id: "one" };
    for (let round = 0; round < ROUNDS; round++) {
      await client.sendMessage({ params, body: { text: `notice ${round}`, deliver: "next-turn" } });
      for (const part of ["a", "b"]) await client.sendMessage({ params, body: { text: `${round}${part}` } });
      await sleep(Math.random() * 60);
      killGateway(pid);
      ({ client, pid } = await startGatewayProcess(home));
    }
    await waitFor("all are delivered", async () => {
      const { messages } = await client.sessionStatus({ params });
      return messages.pending === 0;
    });
    const all = receivedPrompts(home);
    const notices = all.flatMap((prompt) => prompt.match(/^> notice \d+$/gm) ?? []);
    expect(notices).toEqual(Array.from({ length: ROUNDS }, (_, at) => `> notice ${at}`));
    const texts = Array.from({ length: ROUNDS }, (_, at) => [`${at}a`, `${at}b`]).flat();
    expect(all.map((prompt) => prompt.split("\n\n").at(-1))).toEqual(
      texts.map((text) => `Message from the operator:\n> ${text}`),
    );
    const { messages, turns, session } = await client.sessionHistory({ params });
    const woken = messages.filter(({ deliver }) => deliver === "wake");
    expect(woken.map(({ turnId, seq }) => [turnId, seq])).toEqual(
      turns.map(({ turnId, place: seq }) => [turnId, seq]),
    );
    expect(messages.every(({ deliveredAt }) => deliveredAt !== null)).toBe(true);
    expect(turns.every(({ outcome }) => outcome === "completed")).toBe(true);
    expect(session.closedAt).toBeNull();
    await client.acpClose({ params });
  },
);
