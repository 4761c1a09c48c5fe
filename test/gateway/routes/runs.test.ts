import { expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { decodeFrame } from "../../../src/api/attach-frames.js";
import { SqliteConnection } from "../../../src/store/sqlite/retrying-connection.js";
import {
  plantLookalike,
  findProcessesOfRun,
  realSupervisor,
} from "../../support/supervisor/real-supervisor.js";
import {
  waitForRunEnd,
  gatewayForFile,
  errorOf,
  shellCommand,
  outputText,
} from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile();

async function bash(): Promise<{ runId: string }> {
  const { run } = await fixture.client.exec({
    body: {
      argv: ["bash", "--norc", "--noprofile", "-i"],
      pty: true,
      background: true,
      env: { PS1: "ready> ", TERM: "xterm" },
      graceMs: 0,
    },
  });
  await shows(run, "ready>");
  return { runId: run.runId };
}

async function shows(params: { runId: string }, text: string): Promise<void> {
  await waitFor(`the screen shows ${text}`, async () =>
    (await fixture.client.screen({ params })).rows.some((row) => row.includes(text)),
  );
}

async function end(params: { runId: string }): Promise<void> {
  expect(await fixture.client.kill({ params, body: { graceMs: 0 } })).toMatchObject({
    outcome: "gone",
  });
}

test("a poll waits for new output, and consumes nothing", async () => {
  const { run } = await fixture.client.exec({
    body: { ...shellCommand("sleep 0.3; echo news; sleep 60"), background: true },
  });
  const first = await fixture.client.poll({ params: run, query: { waitMs: 10_000 } });
  expect(outputText(first)).toBe("news\n");
  expect(first.run.state).toBe("running");
  expect(outputText(await fixture.client.poll({ params: run }))).toBe("news\n");
  const before = performance.now();
  const later = await fixture.client.poll({ params: run, query: { stdout: 5, waitMs: 200 } });
  expect(performance.now() - before).toBeGreaterThan(150);
  expect(outputText(later)).toBe("");
  expect(later.idleMs).toBeGreaterThan(100);
  await end(run);
  const last = await fixture.client.poll({ params: run, query: { waitMs: 30_000 } });
  expect(last.run).toMatchObject({ state: "exited", exit: { reason: "manual-cancel" } });
});

test("a waiting poll returns at the end", async () => {
  const { run } = await fixture.client.exec({ body: { argv: ["sleep", "0.3"], background: true } });
  const answer = await fixture.client.poll({ params: run, query: { waitMs: 20_000 } });
  expect(answer.run.state).toBe("exited");
  expect(answer.output.every(({ ended }) => ended)).toBe(true);
});

test("a poll or log of an ended run reads its record once", async () => {
  const { run } = await fixture.client.exec({ body: shellCommand("echo out") });
  using execute = vi.spyOn(SqliteConnection.prototype, "execute");
  const reads = () => execute.mock.calls.filter(([{ parameters }]) => parameters.includes(run.runId)).length;
  expect(outputText(await fixture.client.poll({ params: run }))).toBe("out\n");
  expect(reads()).toBe(1);
  expect((await fixture.client.log({ params: run })).text).toBe("out\n");
  expect(reads()).toBe(2);
});

test("a program that prints a prompt seems to wait for input", async () => {
  const { run } = await fixture.client.exec({
    body: { ...shellCommand("printf 'Continue? [y/N] '; read answer"), stdin: "pipe", background: true },
  });
  await waitFor("it seems to wait", async () => {
    return (await fixture.client.poll({ params: run })).waitingForInput.seems;
  });
  await fixture.client.write({ params: run, body: { text: "y\n" } });
  expect((await waitForRunEnd(fixture.client, run.runId)).exit?.code).toBe(0);
});

test("a log is read by lines from the end, or by bytes from any offset", async () => {
  const { run } = await fixture.client.exec({ body: shellCommand("seq 1 100; echo no >&2") });
  const tail = await fixture.client.log({ params: run, query: { lines: 2 } });
  expect(tail).toMatchObject({ text: "99\n100\n", nextOffset: 292, ended: true });
  const err = await fixture.client.log({ params: run, query: { stream: "stderr" } });
  expect(err.text).toBe("no\n");
  let whole = "";
  for (let offset = 0, ended = false; !ended;) {
    const page = await fixture.client.log({ params: run, query: { offset, maxBytes: 50 } });
    expect(page.offset).toBe(offset);
    whole += page.text;
    ({ nextOffset: offset, ended } = page);
  }
  expect(whole).toBe(Array.from({ length: 100 }, (_, at) => `${at + 1}\n`).join(""));
});

test("written text and bytes arrive, and closing ends the input", async () => {
  const { run } = await fixture.client.exec({
    body: { argv: ["cat"], stdin: "pipe", background: true },
  });
  await fixture.client.write({ params: run, body: { text: "ä" } });
  await fixture.client.write({
    params: run,
    body: { base64: Buffer.from([0xe2, 0x82]).toString("base64") },
  });
  await fixture.client.write({
    params: run,
    body: { base64: Buffer.from([0xac]).toString("base64"), close: true },
  });
  expect((await waitForRunEnd(fixture.client, run.runId)).exit?.code).toBe(0);
  expect(outputText(await fixture.client.poll({ params: run }))).toBe("ä€");
  const late = await errorOf(fixture.client.write({ params: run, body: { text: "late" } }));
  expect(late.code).toBe("STDIN_CLOSED");
});

test("bash on a PTY: keys, paste, submit, interrupt, resize, screen", async () => {
  const params = await bash();
  await fixture.client.sendKeys({ params, body: { keys: ["literal:echo k$((20+1))", "Enter"] } });
  await shows(params, "k21");
  await fixture.client.sendKeys({ params, body: { keys: ["Up", "Enter"] } });
  await waitFor("it was done again", async () => {
    const { rows } = await fixture.client.screen({ params });
    return rows.filter((row) => row.startsWith("k21")).length === 2;
  });
  const { bracketed } = await fixture.client.paste({
    params,
    body: { text: "echo p$((30+1))\necho q$((40+1))" },
  });
  await shows(params, "echo q$((40+1))");
  // Pasted, not typed: nothing runs before it is submitted.
  if (bracketed)
    expect((await fixture.client.screen({ params })).rows.some((row) => row.startsWith("p31"))).toBe(false);
  await fixture.client.paste({ params, body: { text: "", submit: true } });
  await shows(params, "q41");
  await fixture.client.sendKeys({ params, body: { keys: ["literal:sleep 60", "Enter"] } });
  await shows(params, "sleep 60");
  await fixture.client.sendKeys({ params, body: { keys: ["C-c"] } });
  await shows(params, "^C");
  await fixture.client.resize({ params, body: { rows: 20, cols: 60 } });
  await fixture.client.paste({ params, body: { text: "stty size", submit: true } });
  await shows(params, "20 60");
  const screen = await fixture.client.screen({ params });
  expect([screen.rows.length, screen.cols]).toEqual([20, 60]);
  // Before its prompt, bash does not take Ctrl-D as the end of its input.
  await waitFor("bash reads its next command", async () => {
    const { rows } = await fixture.client.screen({ params });
    return rows.findLast((row) => row !== "")?.trimEnd() === "ready>";
  });
  await fixture.client.sendKeys({ params, body: { keys: ["C-d"] } });
  expect((await waitForRunEnd(fixture.client, params.runId)).exit?.reason).toBe("exit");
});

test("a run without a terminal has no screen and takes no keys; its input is unharmed", async () => {
  const { run } = await fixture.client.exec({
    body: { argv: ["cat"], stdin: "pipe", background: true },
  });
  expect((await errorOf(fixture.client.screen({ params: run }))).code).toBe("BAD_INPUT");
  expect((await errorOf(fixture.client.sendKeys({ params: run, body: { keys: ["Up"] } }))).code).toBe(
    "BAD_INPUT",
  );
  await fixture.client.write({ params: run, body: { close: true } });
  expect((await waitForRunEnd(fixture.client, run.runId)).exit?.code).toBe(0);
});

test("a key that does not exist is bad input", async () => {
  const params = await bash();
  const { code } = await errorOf(fixture.client.sendKeys({ params, body: { keys: ["C-"] } }));
  expect(code).toBe("BAD_INPUT");
  await end(params);
});

test("kill answers gone when all processes are, and ended-before for an ended run", async () => {
  plantLookalike("sleep", "61");
  const { run } = await fixture.client.exec({
    body: { ...shellCommand("sleep 61 & sleep 61 & wait"), background: true },
  });
  await waitFor("its children run", async () => (await findProcessesOfRun(run.runId)).length >= 3);
  const { outcome, survivors, run: record } = await fixture.client.kill({ params: run });
  expect({ outcome, survivors }).toEqual({ outcome: "gone", survivors: [] });
  expect(await findProcessesOfRun(run.runId)).toEqual([]);
  expect(record).toMatchObject({ state: "exited", exit: { reason: "manual-cancel", actor: "operator" } });
  expect(await fixture.client.kill({ params: run })).toMatchObject({ outcome: "ended-before" });
});

test("a run of another supervisor is visible and can be killed, but takes no input", async () => {
  plantLookalike("sleep", "62");
  const other = await realSupervisor({ home: fixture.home });
  const { runId } = await other.spawn({ io: "pipe", argv: ["sh", "-c", "echo here; exec sleep 62"] });
  const params = { runId };
  await waitFor(
    "its output is seen",
    async () => outputText(await fixture.client.poll({ params })) === "here\n",
  );
  expect((await errorOf(fixture.client.write({ params, body: { text: "x" } }))).code).toBe("NOT_STEERING");
  expect(await fixture.client.kill({ params, body: { graceMs: 0 } })).toMatchObject({
    outcome: "gone",
  });
  expect(await findProcessesOfRun(runId)).toEqual([]);
});

test("a poll waits for new output also of a run of another supervisor", async () => {
  const other = await realSupervisor({ home: fixture.home });
  const { runId } = await other.spawn({ io: "pipe", argv: ["sh", "-c", "sleep 0.4; echo here; sleep 63"] });
  const params = { runId };
  expect(outputText(await fixture.client.poll({ params, query: { waitMs: 10_000 } }))).toBe("here\n");
  await fixture.client.kill({ params, body: { graceMs: 0 } });
});

test("remove hides a run at once, and stops it; its record stays", async () => {
  const { run } = await fixture.client.exec({
    body: { argv: ["sleep", "60"], background: true, graceMs: 0 },
  });
  expect(await fixture.client.remove({ params: run })).toEqual({ runId: run.runId, stopping: true });
  const { runs } = await fixture.client.listRuns({ query: { all: "1", limit: 1000 } });
  expect(runs.map(({ runId }) => runId)).not.toContain(run.runId);
  expect(await waitForRunEnd(fixture.client, run.runId)).toMatchObject({
    exit: { reason: "manual-cancel" },
  });
});

test("runs are found by label, agent and state", async () => {
  const labels = { team: "a", role: "x" };
  const { run } = await fixture.client.exec({ body: { argv: ["true"], labels, agentId: "finder" } });
  const find = async (query: object) =>
    (await fixture.client.listRuns({ query })).runs.map(({ runId }) => runId);
  expect(await find({ all: "1", label: "team=a,role=x" })).toEqual([run.runId]);
  expect(await find({ all: "1", agent: "finder" })).toEqual([run.runId]);
  expect(await find({ all: "1", label: "team=b" })).toEqual([]);
  expect(await find({ agent: "finder" })).toEqual([]);
  expect((await errorOf(find({ label: "nonsense" }))).code).toBe("BAD_INPUT");
});

test("viewers attach and detach: output from the start, input, garbage refused, the end", async () => {
  const { run } = await fixture.client.exec({
    body: { ...shellCommand("echo first; cat"), stdin: "pipe", background: true },
  });
  const view = () => {
    const viewer = new WebSocket(`ws+unix://${fixture.socketPath}:/v1/runs/${run.runId}/attach`, {
      headers: { authorization: `Bearer ${fixture.token}` },
    });
    const seen = { output: "", said: [] as { type: string; record?: unknown }[], closed: 0 };
    viewer.on("message", (data: Buffer, binary: boolean) => {
      if (binary) seen.output += decodeFrame(data).bytes.toString();
      else seen.said.push(JSON.parse(data.toString()) as { type: string });
    });
    viewer.on("close", (code: number) => (seen.closed = code));
    return { viewer, seen };
  };
  const one = view();
  const two = view();
  await waitFor("both see it", () => [one, two].every(({ seen }) => seen.output === "first\n"));
  two.viewer.close();
  for (const garbage of [
    "{",
    "null",
    '{"type":"?"}',
    '{"type":"ack","stream":"x","offset":-1}',
    '{"type":"stop","graceMs":"x"}',
  ])
    one.viewer.send(garbage);
  await waitFor(
    "all of it was refused",
    () => one.seen.said.filter(({ type }) => type === "refused").length === 5,
  );
  one.viewer.send(Buffer.from("typed\n"));
  await waitFor("it came back", () => one.seen.output === "first\ntyped\n");
  one.viewer.send(JSON.stringify({ type: "eof" }));
  await waitFor("it was told of the end", () => one.seen.closed === 1000);
  expect(one.seen.said.at(-1)).toMatchObject({ type: "ended", record: { exit: { code: 0 } } });
});
