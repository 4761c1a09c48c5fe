import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { startGateway } from "../../src/gateway/start.js";
import { Resident } from "./resident.js";
import { main, Stage } from "./stage.js";

/** Where a foreground command is supervised. At the terminal both must look the same. */
export const ways = ["in its own process", "through the gateway"] as const;
export type Way = (typeof ways)[number];

/** Stages for one of the ways; the gateway, where there is one, serves all tests of the block. */
export function stagesFor(way: Way): () => Promise<Stage> {
  if (way === "in its own process") return () => Stage.open();
  let house: Resident | null = null;
  let residents: readonly string[] = [];
  beforeAll(async () => {
    house = new Resident(await mkdtemp(join(tmpdir(), "hf-")));
    await startGateway(house.home, main);
    // The launcher comes with the first run.
    await (await house.client()).exec({ body: { argv: ["true"] } });
    residents = (await house.processes()).map(pidOf);
  });
  afterAll(async () => {
    await house?.stop("terminate");
    await house?.[Symbol.asyncDispose]();
  });
  return async () => new Guest(house?.home ?? "", residents);
}

function pidOf(line: string): string {
  return line.slice(0, line.indexOf(" "));
}

/** In a house that has a gateway, which stays when the guest leaves. */
class Guest extends Stage {
  readonly #residents: readonly string[];

  constructor(home: string, residents: readonly string[]) {
    super(home);
    this.#residents = residents;
  }

  override get env(): NodeJS.ProcessEnv {
    return { ...super.env, HOLDFAST_IN_PROCESS: undefined };
  }

  override async processes(): Promise<string[]> {
    return (await super.processes()).filter((line) => !this.#residents.includes(pidOf(line)));
  }

  protected override async clearUp(): Promise<void> {}
}
