import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import type { ResponseOf, RequestOf } from "../../../src/api/contract.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { startGateway } from "../../../src/gateway/start-in-background.js";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { RecoveryFixture } from "./recovery-fixture.js";
import { cliPath } from "./cli-fixture.js";
import { waitFor } from "../wait-for.js";

type GatewayStatusAnswer = ResponseOf<"status">;

/** A state directory with a gateway in the background. Disposing stops the gateway and its runs. */
export class BackgroundGateway extends RecoveryFixture {
  static override async open(): Promise<BackgroundGateway> {
    return new BackgroundGateway(await mkdtemp(join(tmpdir(), "hf-")));
  }

  static async started(): Promise<BackgroundGateway> {
    const gatewayFixture = await BackgroundGateway.open();
    await startGateway(gatewayFixture.home, cliPath);
    return gatewayFixture;
  }

  async client(): Promise<GatewayClient> {
    const token = (await readOperatorToken(this.home)) ?? "";
    return createClient({ socketPath: gatewaySocketPath(this.home), token });
  }

  /** Starts a run in the background. Returns its id. */
  async startRun(body: Partial<RequestOf<"exec">["body"]>): Promise<string> {
    const client = await this.client();
    const { run } = await client.exec({ body: { background: true, graceMs: 200, ...body } });
    return run.runId;
  }

  async startScript(script: string): Promise<string> {
    return this.startRun({ argv: ["sh", "-c", script] });
  }

  /** Starts an interactive shell on a PTY, and waits for its prompt. */
  async startBash(): Promise<string> {
    const runId = await this.startRun({
      argv: ["bash", "--norc", "--noprofile", "-i"],
      pty: true,
      env: { PS1: "ready> ", TERM: "xterm" },
    });
    await this.waitForScreen(runId, "ready>");
    return runId;
  }

  /** Waits until the terminal of the run shows this text. */
  async waitForScreen(runId: string, text: string): Promise<void> {
    const { screen } = await this.client();
    await this.#pollUntil(runId, text, async () => (await screen({ params: { runId } })).rows.join("\n"));
  }

  /** Waits until the run has written this text. */
  async waitForOutput(runId: string, text: string): Promise<void> {
    const { poll } = await this.client();
    await this.#pollUntil(runId, text, async () =>
      (await poll({ params: { runId } })).output.map((piece) => piece.text).join(""),
    );
  }

  /** Looks only after new output: there are few cores. */
  async #pollUntil(runId: string, text: string, look: () => Promise<string>): Promise<void> {
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

  async status(): Promise<GatewayStatusAnswer> {
    return (await this.client()).status();
  }

  /** As `holdfast gateway stop`, without its start-up time. */
  async stop(runs: "leave" | "terminate" = "leave"): Promise<void> {
    await (await this.client()).stop({ body: { runs } });
    await waitFor(
      "the gateway does not answer any more",
      async () => (await reachGateway(this.home)) === null,
    );
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    if ((await this.processes()).length > 0) {
      await startGateway(this.home, cliPath);
      await this.stop("terminate");
    }
    await super[Symbol.asyncDispose]();
  }
}
