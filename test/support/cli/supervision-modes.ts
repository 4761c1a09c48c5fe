import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { startGateway } from "../../../src/gateway/start.js";
import { BackgroundGateway } from "./background-gateway.js";
import { cliPath, CliFixture } from "./cli-fixture.js";

/** The two ways to supervise a foreground command. Both must look the same to the user. */
export const SUPERVISION_MODES = ["in its own process", "through the gateway"] as const;
export type SupervisionMode = (typeof SUPERVISION_MODES)[number];

/** Opens fixtures for one mode. All tests of a block share the gateway. */
export function fixtureFactory(mode: SupervisionMode): () => Promise<CliFixture> {
  if (mode === "in its own process") return () => CliFixture.open();
  let fixture: BackgroundGateway | null = null;
  let residents: readonly string[] = [];
  beforeAll(async () => {
    fixture = new BackgroundGateway(await mkdtemp(join(tmpdir(), "hf-")));
    await startGateway(fixture.home, cliPath);
    // The first run starts the launcher.
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

/** A fixture on a shared gateway, which continues when the fixture is disposed. */
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
