import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, type GatewayClient } from "../../src/gateway/client.js";
import type { AnswerOf, AskedOf } from "../../src/gateway/contract/contract.js";
import { gatewaySocket } from "../../src/gateway/server/listen.js";
import { readOperatorToken } from "../../src/gateway/server/requester.js";
import { reach, startGateway } from "../../src/gateway/start.js";
import { until } from "../io/until.js";
import { Field } from "./field.js";
import { main } from "./stage.js";

type Status = AnswerOf<"status">;

/** A state directory whose gateway runs in the background, as a person has it. At the end it and its runs are stopped. */
export class Resident extends Field {
  static override async open(): Promise<Resident> {
    return new Resident(await mkdtemp(join(tmpdir(), "hf-")));
  }

  /** With a gateway that has been started. */
  static async started(): Promise<Resident> {
    const resident = await Resident.open();
    await startGateway(resident.home, main);
    return resident;
  }

  async client(): Promise<GatewayClient> {
    const token = (await readOperatorToken(this.home)) ?? "";
    return createClient({ socketPath: gatewaySocket(this.home), token });
  }

  /** A run in the background; its id. */
  async background(body: Partial<AskedOf<"exec">["body"]>): Promise<string> {
    const client = await this.client();
    const { run } = await client.exec({ body: { background: true, graceMs: 200, ...body } });
    return run.runId;
  }

  async script(script: string): Promise<string> {
    return this.background({ argv: ["sh", "-c", script] });
  }

  /** An interactive shell on a terminal, with its prompt out. */
  async bash(): Promise<string> {
    const runId = await this.background({
      argv: ["bash", "--norc", "--noprofile", "-i"],
      pty: true,
      env: { PS1: "ready> ", TERM: "xterm" },
    });
    await this.shows(runId, "ready>");
    return runId;
  }

  /** Until the run's terminal shows this. */
  async shows(runId: string, text: string): Promise<void> {
    const { screen } = await this.client();
    await this.#news(runId, text, async () => (await screen({ params: { runId } })).rows.join("\n"));
  }

  /** Until the run has written this. */
  async wrote(runId: string, text: string): Promise<void> {
    const { poll } = await this.client();
    await this.#news(runId, text, async () =>
      (await poll({ params: { runId } })).output.map((piece) => piece.text).join(""),
    );
  }

  /** Looks when the run has written something, not all the time: there are few cores. */
  async #news(runId: string, text: string, look: () => Promise<string>): Promise<void> {
    const { poll } = await this.client();
    const from = { stdout: 0, stderr: 0 };
    const deadline = performance.now() + 15_000;
    for (;;) {
      const { output } = await poll({ params: { runId }, query: { ...from, waitMs: 200 } });
      for (const { stream, nextOffset } of output) from[stream] = nextOffset;
      const seen = await look();
      if (seen.includes(text)) return;
      if (performance.now() > deadline)
        throw new Error(`${runId} has no ${JSON.stringify(text)}: ${JSON.stringify(seen)}`);
    }
  }

  async status(): Promise<Status> {
    return (await this.client()).status();
  }

  /** As `holdfast gateway stop`, without its start-up time. */
  async stop(runs: "leave" | "terminate" = "leave"): Promise<void> {
    await (await this.client()).stop({ body: { runs } });
    await until("nobody answers", async () => (await reach(this.home)) === null);
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    if ((await this.processes()).length > 0) {
      await startGateway(this.home, main);
      await this.stop("terminate");
    }
    await super[Symbol.asyncDispose]();
  }
}
