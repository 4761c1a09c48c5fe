import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CliProcess, waitForText } from "./cli-fixture.js";
import { BackgroundGateway } from "./background-gateway.js";
import { startGateway } from "../../../src/gateway/start.js";
import { cliPath } from "./cli-fixture.js";

/** Gateways come and go in these tests, which takes a loaded machine many seconds each time. */
export const LONG_TIMEOUT = { timeout: 120_000 };

/** A state directory with a gateway, whose foreground commands are its clients, as a person has it. */
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

  /** Two may be starting a gateway at the same time: the one that comes too late needs a while to find that out. */
  override expectNoProcesses(withinMs = 15_000): Promise<void> {
    return super.expectNoProcesses(withinMs);
  }

  /** The gateway, killed outright. */
  async killGateway(): Promise<void> {
    const { pid } = await this.status();
    process.kill(pid, "SIGKILL");
  }

  /** `holdfast run`, once its command has said that it is up; the run's id. */
  async startForeground(...args: readonly string[]): Promise<CliProcess & { readonly runId: string }> {
    const going = this.start("run", ...args);
    await waitForText(going.child.stdout, "up\n");
    const { runs } = await (await this.client()).listRuns();
    return { ...going, runId: runs[0]?.runId ?? "" };
  }
}
