import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Going, sees } from "../stage.js";
import { Resident } from "../resident.js";
import { startGateway } from "../../../src/gateway/start.js";
import { main } from "../stage.js";

/** Gateways come and go in these tests, which takes a loaded machine many seconds each time. */
export const PATIENT = { timeout: 120_000 };

/** A state directory with a gateway, whose foreground commands are its clients, as a person has it. */
export class House extends Resident {
  static override async open(): Promise<House> {
    return new House(await mkdtemp(join(tmpdir(), "hf-")));
  }

  static override async started(): Promise<House> {
    const house = await House.open();
    await house.comeUp();
    return house;
  }

  override get env(): NodeJS.ProcessEnv {
    return { ...super.env, HOLDFAST_IN_PROCESS: undefined };
  }

  async comeUp(): Promise<void> {
    await startGateway(this.home, main);
  }

  /** Two may be starting a gateway at the same time: the one that comes too late needs a while to find that out. */
  override nothingLeft(withinMs = 15_000): Promise<void> {
    return super.nothingLeft(withinMs);
  }

  /** The gateway, killed outright. */
  async killGateway(): Promise<void> {
    const { pid } = await this.status();
    process.kill(pid, "SIGKILL");
  }

  /** `holdfast run`, once its command has said that it is up; the run's id. */
  async call(...args: readonly string[]): Promise<Going & { readonly runId: string }> {
    const going = this.start("run", ...args);
    await sees(going.child.stdout, "up\n");
    const { runs } = await (await this.client()).listRuns();
    return { ...going, runId: runs[0]?.runId ?? "" };
  }
}
