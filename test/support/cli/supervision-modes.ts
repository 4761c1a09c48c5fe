import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { makeNativeCommand } from "../../../src/cli/shellenv/native-command.js";
import { startGateway } from "../../../src/gateway/start-in-background.js";
import { BackgroundGateway } from "./background-gateway.js";
import { cliPath, CliFixture, nativePath } from "./cli-fixture.js";

const NATIVE = "through the gateway, by the native client";

/** The ways to supervise a foreground command. All must look the same to the user. */
export const SUPERVISION_MODES = [
  "in its own process",
  "through the gateway",
  ...(process.platform === "win32" ? [] : [NATIVE]),
] as const;
type SupervisionMode = (typeof SUPERVISION_MODES)[number];

/** Opens fixtures for one mode. All tests of a block share the state directory and the gateway. */
export function fixtureFactory(mode: SupervisionMode): () => Promise<CliFixture> {
  let fixture: BackgroundGateway | null = null;
  let residents: readonly string[] = [];
  beforeAll(async () => {
    fixture = new BackgroundGateway(await mkdtemp(join(tmpdir(), "hf-")));
    if (mode === "in its own process") return;
    await startGateway(fixture.home, cliPath);
    if (mode === NATIVE) await makeNativeCommand(fixture.home, cliPath);
    // The first run starts the launcher.
    await (await fixture.client()).exec({ body: { argv: ["true"] } });
    residents = (await fixture.processes()).map(pidOf);
  });
  afterAll(async () => {
    if (mode !== "in its own process") await fixture?.stop("terminate");
    await fixture?.[Symbol.asyncDispose]();
  });
  return async () => new SharedFixture(fixture?.home ?? "", mode, residents);
}

function pidOf(line: string): string {
  return line.slice(0, line.indexOf(" "));
}

/** A fixture on a shared state directory, which is kept when the fixture is disposed. */
class SharedFixture extends CliFixture {
  readonly #mode: SupervisionMode;
  readonly #residents: readonly string[];

  constructor(home: string, mode: SupervisionMode, residents: readonly string[]) {
    super(home);
    this.#mode = mode;
    this.#residents = residents;
  }

  override get env(): NodeJS.ProcessEnv {
    return this.#mode === "in its own process" ? super.env : { ...super.env, HOLDFAST_IN_PROCESS: undefined };
  }

  protected override get program(): readonly [string, ...string[]] {
    return this.#mode === NATIVE ? [nativePath(this.home)] : super.program;
  }

  /** Without those of the gateway: it replaces a used warm anchor, so their pids change. */
  override async processes(): Promise<string[]> {
    return (await super.processes()).filter(
      (line) => !this.#residents.includes(pidOf(line)) && !/^\d+ holdfast-anchor warm /.test(line),
    );
  }

  protected override async cleanUp(): Promise<void> {}
}
