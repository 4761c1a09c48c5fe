import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { startGateway } from "../../../src/gateway/start.js";
import { BackgroundGateway } from "./background-gateway.js";
import { cliPath, CliFixture } from "./cli-fixture.js";

/** Where a foreground command is supervised. At the terminal both must look the same. */
export const SUPERVISION_MODES = ["in its own process", "through the gateway"] as const;
export type SupervisionMode = (typeof SUPERVISION_MODES)[number];

/** Stages for one of the ways; the gateway, where there is one, serves all tests of the block. */
export function fixtureFactory(way: SupervisionMode): () => Promise<CliFixture> {
  if (way === "in its own process") return () => CliFixture.open();
  let fixture: BackgroundGateway | null = null;
  let residents: readonly string[] = [];
  beforeAll(async () => {
    fixture = new BackgroundGateway(await mkdtemp(join(tmpdir(), "hf-")));
    await startGateway(fixture.home, cliPath);
    // The launcher comes with the first run.
    await (await fixture.client()).exec({ body: { argv: ["true"] } });
    residents = (await fixture.processes()).map(pidOf);
  });
  afterAll(async () => {
    await fixture?.stop("terminate");
    await fixture?.[Symbol.asyncDispose]();
  });
  return async () => new SharedGatewayFixture(fixture?.home ?? "", residents);
}

function pidOf(line: string): string {
  return line.slice(0, line.indexOf(" "));
}

/** In a house that has a gateway, which stays when the guest leaves. */
class SharedGatewayFixture extends CliFixture {
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

  protected override async cleanUp(): Promise<void> {}
}
