import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startGateway } from "../../../src/gateway/start-in-background.js";
import { BackgroundGateway } from "./background-gateway.js";
import { type CliProcess, cliPath, waitForText } from "./cli-fixture.js";

/** For tests that start several gateways: each start takes seconds on a loaded machine. */
export const LONG_TIMEOUT = { timeout: 120_000 };

/** A state directory with a gateway; `holdfast run` goes through it. */
export class ForegroundFixture extends BackgroundGateway {
  static override async open(): Promise<ForegroundFixture> {
    return new ForegroundFixture(await mkdtemp(join(tmpdir(), "hf-")));
  }

  static override async started(): Promise<ForegroundFixture> {
    const fixture = await ForegroundFixture.open();
    await fixture.startGateway();
    return fixture;
  }

  override get env(): NodeJS.ProcessEnv {
    return { ...super.env, HOLDFAST_IN_PROCESS: undefined };
  }

  async startGateway(): Promise<void> {
    await startGateway(this.home, cliPath);
  }

  /** Two processes may start a gateway at the same time; the second ends when it finds the first. */
  override expectNoProcesses(withinMs = 15_000): Promise<void> {
    return super.expectNoProcesses(withinMs);
  }

  async killGateway(): Promise<void> {
    const { pid } = await this.status();
    process.kill(pid, "SIGKILL");
  }

  /** `holdfast run` of a shell script, after the script has printed `up`. */
  async startForeground(
    script: string,
    ...options: readonly string[]
  ): Promise<CliProcess & { readonly runId: string }> {
    const started = this.start("run", ...options, "--", "sh", "-c", script);
    await waitForText(started.child.stdout, "up\n");
    const { runs } = await (await this.client()).listRuns();
    return { ...started, runId: runs[0]?.runId ?? "" };
  }
}
