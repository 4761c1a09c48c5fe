import { createHash, randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { RunGate, whyNoTerminal } from "../../support/cli/recovery-fixture.js";
import { ForegroundFixture, LONG_TIMEOUT } from "../../support/cli/foreground-fixture.js";
import { waitFor } from "../../support/wait-for.js";

const hash = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

/** On a slow machine the client says that it waits; that is not the command's. */
function withoutNotes(bytes: Buffer): Buffer {
  const text = bytes
    .toString("latin1")
    .replaceAll(/holdfast: the gateway (is gone|was stopped)[^\n]*\n/g, "");
  return Buffer.from(text, "latin1");
}

/** What happens to the gateway each time a part of the output has come through. */
type Blow = (fixture: ForegroundFixture, round: number) => Promise<void>;

const killedAndReplaced: Blow = async (fixture, round) => {
  await fixture.killGateway();
  // Once, nobody but the client is there to start the next.
  if (round > 0) await fixture.startGateway();
};
const restarted: Blow = async (fixture) => {
  expect((await fixture.holdfast("gateway", "restart")).code).toBe(0);
};

describe("under a foreground run", LONG_TIMEOUT, () => {
  test.each<[string, number, Blow]>([
    ["killed again and again", 3, killedAndReplaced],
    ["restarted twice", 2, restarted],
  ])("a gateway is %s: no byte is lost or doubled, in either direction", async (_, rounds, blow) => {
    await using fixture = await ForegroundFixture.started();
    const sent = randomBytes(6 * 1024 * 1024);
    const { child, raw, finished } = fixture.start(
      "run",
      "--buffer",
      "256K",
      "--",
      "sh",
      "-c",
      "tee /dev/stderr; exit 6",
    );
    let received = 0;
    child.stdout.on("data", (data: Buffer) => (received += data.length));
    child.stdin.end(sent);
    for (let round = 0; round < rounds; round++) {
      const mark = ((round + 1) * sent.length) / (rounds + 2);
      await waitFor(`${mark} bytes have come through`, async () => received > mark, 60_000);
      await blow(fixture, round);
    }
    const [stdout, stderr] = await raw;
    expect([stdout, withoutNotes(stderr)].map(hash)).toEqual([hash(sent), hash(sent)]);
    expect((await finished).code).toBe(6);
  });

  test("the command ends while there is none: its last output and its exit code are told by the next", async () => {
    await using fixture = await ForegroundFixture.started();
    await using gate = await RunGate.create();
    const script = `echo up; read line <'${gate.path}'; seq 1 2000; exit 8`;
    const { finished, runId } = await fixture.startForeground(script);
    await fixture.stop();
    await gate.release();
    await waitFor("it is gone", async () => (await fixture.membersOf(runId)).length === 0);
    await fixture.startGateway();
    const { code, stdout } = await finished;
    expect({ code, last: stdout.trimEnd().split("\n").at(-1), lines: stdout.split("\n").length }).toEqual({
      code: 8,
      last: "2000",
      lines: 2002,
    });
  });
});

describe.skipIf(whyNoTerminal !== null)("at a terminal", LONG_TIMEOUT, () => {
  test.each([
    ["Ctrl-C cancels the command", [], 130],
    ["with --pty, Ctrl-C is a key for it", ["--pty"], 9],
  ] as const)("%s, also under a second gateway", async (_, options, code) => {
    await using fixture = await ForegroundFixture.started();
    const script =
      'trap "echo caught; exit 9" INT TERM; echo up; read line; echo "got $line"; while :; do sleep 0.05; done';
    const ended = fixture.atTerminal(
      ["run", ...options, "--", "sh", "-c", script],
      ["up", ""],
      ["the gateway is gone", "hello\n"],
      ["got hello", "\u0003"],
    );
    const client = await fixture.client();
    await waitFor("it runs", async () => (await client.listRuns()).runs[0]?.state === "running");
    await waitFor("it is up", async () => {
      const { runs } = await client.listRuns();
      const runId = runs[0]?.runId ?? "";
      return (await client.poll({ params: { runId } })).output.some(({ nextOffset }) => nextOffset > 0);
    });
    await fixture.killGateway();
    const shown = await ended;
    expect(shown.code).toBe(code);
    expect(shown.stdout).toContain("caught");
  });
});
