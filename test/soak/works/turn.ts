import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { rmSync, writeFileSync } from "node:fs";
import { type LiveProcess, findByCommandLine, readProcess } from "../../support/live-processes.js";
import type { Random } from "../../simulation/random.js";
import type { World } from "../world/world.js";
import { Work, type WorkEnd } from "./work.js";

const AGENT = resolve("test/support/agents/programs/scripted-agent.mjs");
const END_MS = 60_000;

/** A prompt to an agent; turns of a world share the agent. */
export class TurnWork extends Work {
  readonly kind = "turn";
  readonly #turnId = `turn_${this.token.padStart(12, "0").slice(-12)}`;
  #sessionId: string | null = null;
  #agentRunId: string | null = null;

  constructor(world: World, random: Random, token: string) {
    // The record of a turn keeps a million characters.
    super(world, random, token, 150_000);
  }

  protected override prepare(): void {}

  protected async start(): Promise<void> {
    const { world } = this;
    this.#sessionId = await world.agentSession(() => this.#open());
    const chunks = (text: string): object[] => (text.match(/[^]{1,20000}/g) ?? []).map((say) => ({ say }));
    const text = JSON.stringify([
      ...chunks(this.before.toString()),
      { wait: this.file("go") },
      ...chunks(this.after.toString()),
    ]);
    const turnId = this.#turnId;
    await world.client.acpPrompt({ params: { id: this.#sessionId }, body: { text, turnId, wait: false } });
  }

  async #open(): Promise<string> {
    const { world, token } = this;
    // With a process of its own below the agent.
    const script = 'sleep 3600 & exec "$@"';
    const argv = ["/bin/sh", "-c", script, "sh", process.execPath, AGENT, `agent-${token}`];
    const { session } = await world.client.acpSpawn({
      body: {
        argv,
        cwd: world.files,
        key: `soak-${token}`,
        environment: { ...env(), SOAK_WORLD: world.token },
      },
    });
    return session.sessionId;
  }

  get runId(): string | null {
    return this.#agentRunId;
  }

  override leader(): LiveProcess | null {
    return (
      findByCommandLine(AGENT).find(({ parentPid }) =>
        readProcess(parentPid)?.argv.includes(this.world.instanceDirectory),
      ) ?? null
    );
  }

  override anchor(): LiveProcess | null {
    const leader = this.leader();
    return leader === null ? null : readProcess(leader.parentPid);
  }

  override executions(): readonly { readonly runId: string; readonly pid: number }[] {
    return [];
  }

  override release(): void {
    writeFileSync(this.file("go"), "");
  }

  async end(): Promise<WorkEnd | null> {
    const { world } = this;
    const id = this.#sessionId;
    if (id === null) return null;
    const deadline = performance.now() + END_MS;
    for (;;) {
      const { turns } = await world.ask((client) =>
        client.acpHistory({ params: { id }, query: { turn: this.#turnId, limit: 1 } }),
      );
      const turn = turns.find(({ turnId }) => turnId === this.#turnId);
      if (turn === undefined && this.refusal !== null) {
        await world.forgetAgentSession();
        return null;
      }
      if (turn?.state === "ended") {
        const completed = turn.outcome === "completed";
        if (!completed) await world.forgetAgentSession();
        return {
          reason: completed ? "exit" : (turn.outcome ?? "none"),
          code: completed ? this.exitCode : null,
          output: Buffer.from(turn.text),
          declaredShort: false,
        };
      }
      if (performance.now() > deadline)
        throw new Error(
          `stuck: ${this.#turnId} is ${turn?.state ?? "not on record"} (${this.refusal ?? "it was started"})`,
        );
      await sleep(20);
    }
  }

  override allow(allowance: Parameters<Work["allow"]>[0]): void {
    // Whatever ends an agent interrupts its turn.
    super.allow(
      (allowance.reasons ?? []).length > 0
        ? { reasons: ["interrupted", "failed", "cancelled"], short: true }
        : allowance,
    );
  }

  override tidy(): void {
    rmSync(this.file("go"), { force: true });
  }
}

function env(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(process.env).filter((each): each is [string, string] => each[1] !== undefined),
  );
}
