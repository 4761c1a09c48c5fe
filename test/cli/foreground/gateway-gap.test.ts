import { createHash, randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { until } from "../../io/until.js";
import { Gate, whyNoTerminal } from "../field.js";
import { House, PATIENT } from "./called.js";

const hash = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

/** On a slow machine the client says that it waits; that is not the command's. */
function withoutNotes(bytes: Buffer): Buffer {
  const text = bytes
    .toString("latin1")
    .replaceAll(/holdfast: the gateway (is gone|was stopped)[^\n]*\n/g, "");
  return Buffer.from(text, "latin1");
}

/** What happens to the gateway each time a part of the output has come through. */
type Blow = (house: House, round: number) => Promise<void>;

const killedAndReplaced: Blow = async (house, round) => {
  await house.killGateway();
  // Once, nobody but the client is there to start the next.
  if (round > 0) await house.comeUp();
};
const restarted: Blow = async (house) => {
  expect((await house.holdfast("gateway", "restart")).code).toBe(0);
};

describe("under a foreground run", PATIENT, () => {
  test.each<[string, number, Blow]>([
    ["killed again and again", 3, killedAndReplaced],
    ["restarted twice", 2, restarted],
  ])("a gateway is %s: no byte is lost or doubled, in either direction", async (_, rounds, blow) => {
    await using house = await House.started();
    const sent = randomBytes(6 * 1024 * 1024);
    const { child, raw, finished } = house.start(
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
      await until(`${mark} bytes have come through`, async () => received > mark, 60_000);
      await blow(house, round);
    }
    const [stdout, stderr] = await raw;
    expect([stdout, withoutNotes(stderr)].map(hash)).toEqual([hash(sent), hash(sent)]);
    expect((await finished).code).toBe(6);
  });

  test("the command ends while there is none: its last output and its exit code are told by the next", async () => {
    await using house = await House.started();
    await using gate = await Gate.make();
    const script = `echo up; read line <'${gate.path}'; seq 1 2000; exit 8`;
    const { finished, runId } = await house.call("--", "sh", "-c", script);
    await house.stop();
    await gate.open();
    await until("it is gone", async () => (await house.membersOf(runId)).length === 0);
    await house.comeUp();
    const { code, stdout } = await finished;
    expect({ code, last: stdout.trimEnd().split("\n").at(-1), lines: stdout.split("\n").length }).toEqual({
      code: 8,
      last: "2000",
      lines: 2002,
    });
  });
});

describe.skipIf(whyNoTerminal !== null)("at a terminal", PATIENT, () => {
  test.each([
    ["Ctrl-C cancels the command", [], 130],
    ["with --pty, Ctrl-C is a key for it", ["--pty"], 9],
  ] as const)("%s, also under a second gateway", async (_, options, code) => {
    await using house = await House.started();
    const script =
      'trap "echo caught; exit 9" INT TERM; echo up; read line; echo "got $line"; while :; do sleep 0.05; done';
    const ended = house.atTerminal(
      ["run", ...options, "--", "sh", "-c", script],
      ["up", ""],
      ["the gateway is gone", "hello\n"],
      ["got hello", "\u0003"],
    );
    const client = await house.client();
    await until("it runs", async () => (await client.listRuns()).runs[0]?.state === "running");
    await until("it is up", async () => {
      const { runs } = await client.listRuns();
      const runId = runs[0]?.runId ?? "";
      return (await client.poll({ params: { runId } })).output.some(({ nextOffset }) => nextOffset > 0);
    });
    await house.killGateway();
    const shown = await ended;
    expect(shown.code).toBe(code);
    expect(shown.stdout).toContain("caught");
  });
});
