import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { readProcess, signalProcess, type LiveProcess } from "../../support/live-processes.js";
import { RunGate } from "../../support/cli/recovery-fixture.js";
import { waitForText, type CliProcess } from "../../support/cli/cli-fixture.js";
import { ForegroundFixture, LONG_TIMEOUT } from "../../support/cli/foreground-fixture.js";
import { soak } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

/** Milliseconds from the start of a gateway to its kill: from before it listens until after it owns the run. */
const MOMENTS = soak ? [0, 1_500, 100, 700, 300, 3_000] : [0, 1_500, 100, 700];

/** Longer than one gateway takes to start, so that a run that no gateway serves meanwhile would end. */
const OWNER_LOSS_MS = 6_000;

/** The gateway processes of this state directory, whether they listen yet or not. */
async function gatewaysOf(fixture: ForegroundFixture): Promise<LiveProcess[]> {
  return (await fixture.processes()).flatMap((line) => {
    const one = line.includes("gateway run --quiet") ? readProcess(Number.parseInt(line, 10)) : null;
    return one === null ? [] : [one];
  });
}

/** Kills every gateway process that appears, each after its own delay, until `enough`. */
async function killEachGateway(
  fixture: ForegroundFixture,
  enough: (killed: number) => boolean,
  moments: readonly number[] = MOMENTS,
): Promise<void> {
  for (let killed = 0; !enough(killed); killed++) {
    let found: LiveProcess[] = [];
    await waitFor(
      `gateway ${killed} appears`,
      async () => {
        found = await gatewaysOf(fixture);
        return found.length > 0;
      },
      30_000,
    );
    await setTimeout(moments[killed % moments.length]);
    for (const one of await gatewaysOf(fixture)) signalProcess(one, "SIGKILL");
  }
}

/** A command that writes numbered lines to stdout until a file is there, echoes numbered input to stderr, and exits with 9. */
class Numbered implements AsyncDisposable {
  readonly started: CliProcess;
  readonly #directory: string;
  readonly #feeding = new AbortController();
  readonly #fed: Promise<number>;

  static async start(fixture: ForegroundFixture): Promise<Numbered> {
    const numbered = new Numbered(fixture, await mkdtemp(join(tmpdir(), "numbered-")));
    await waitForText(numbered.started.child.stdout, "1\n");
    return numbered;
  }

  constructor(fixture: ForegroundFixture, directory: string) {
    this.#directory = directory;
    const script = [
      "exec 3<&0",
      '{ while read -r line; do echo "in $line" >&2; done; echo "end of input" >&2; } <&3 &',
      `i=0; while [ ! -e '${this.#end}' ]; do i=$((i + 1)); echo $i; sleep 0.01; done`,
      "wait; exit 9",
    ];
    this.started = fixture.start("run", "--", "bash", "-c", script.join("\n"));
    this.#fed = this.#feed();
  }

  get #end(): string {
    return join(this.#directory, "end");
  }

  async #feed(): Promise<number> {
    const { stdin } = this.started.child;
    for (let line = 1; ; line++) {
      stdin.write(`${line}\n`);
      await setTimeout(50);
      if (!this.#feeding.signal.aborted) continue;
      stdin.end();
      return line;
    }
  }

  /** Ends the command, and expects every line once and in order, in both directions. */
  async everythingOnce(): Promise<void> {
    this.#feeding.abort();
    const lines = await this.#fed;
    await writeFile(this.#end, "");
    const { code, stdout, stderr } = await this.started.finished;
    const echoed = stderr.split("\n").filter((line) => line !== "" && !line.startsWith("holdfast: "));
    const counted = stdout.trimEnd().split("\n");
    expect(echoed).toEqual([...Array.from({ length: lines }, (_, at) => `in ${at + 1}`), "end of input"]);
    expect(counted).toEqual(counted.map((_, at) => String(at + 1)));
    expect(code, stderr).toBe(9);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#feeding.abort();
    this.started.child.kill("SIGKILL");
    await rm(this.#directory, { recursive: true, force: true });
  }
}

describe.concurrent("a foreground run whose replacement gateways are killed too", LONG_TIMEOUT, () => {
  test("loses and repeats no line, and has the exit code of the command", async () => {
    await using fixture = await ForegroundFixture.started();
    await using numbered = await Numbered.start(fixture);
    await killEachGateway(fixture, (killed) => killed === MOMENTS.length);
    await numbered.everythingOnce();
  });

  test("continues although every gateway is killed for longer than its owner-loss time", async () => {
    await using fixture = await ForegroundFixture.open();
    const first = await fixture.gateway({}, { callerOwnerLossMs: OWNER_LOSS_MS });
    await using numbered = await Numbered.start(fixture);
    await first.kill();
    const began = performance.now();
    // Before a gateway can have attached to the anchor.
    await killEachGateway(fixture, () => performance.now() - began > OWNER_LOSS_MS + 2_000, [0, 100]);
    await numbered.everythingOnce();
  });

  test("reports the exit code of a command that ended while there was no gateway", async () => {
    await using fixture = await ForegroundFixture.started();
    await using gate = await RunGate.create();
    const script = `echo up; read line <'${gate.path}'; seq 1 2000; exit 8`;
    const { finished, runId } = await fixture.startForeground(script);
    // Before a gateway can have reported it to the client.
    const killing = killEachGateway(fixture, (killed) => killed === 2, [0, 100]);
    await waitFor("the first gateway is gone", async () => (await gatewaysOf(fixture)).length === 0);
    await gate.release();
    await waitFor("the command has ended", async () => (await fixture.membersOf(runId)).length === 0);
    await killing;
    const { code, stdout, stderr } = await finished;
    expect(stdout).toBe(`up\n${Array.from({ length: 2_000 }, (_, at) => `${at + 1}\n`).join("")}`);
    expect(code, stderr).toBe(8);
    expect((await fixture.waitForEnd(runId)).exit).toMatchObject({ reason: "exit", code: 8 });
  });
});
