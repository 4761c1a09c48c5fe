import assert from "node:assert/strict";
import { type Cell, conptyWithoutHandles } from "./cell.js";
import { nodeCommand, readOutput } from "./os-fixture.js";

/** An end that the command chooses. */
const directExits = [0, 7].map((code): Cell => ({
  name: `direct exit with ${code}`,
  whyNot: conptyWithoutHandles,
  async run(fixture) {
    const supervisor = await fixture.supervisor();
    const run = await fixture.spawn(supervisor, nodeCommand("exit", String(code)));
    const root = run.rootPid ?? 0;
    const { stdout, stderr } = await readOutput(run);
    const texts = [stdout, stderr].map((text) => text.split(/\r?\n/).filter((line) => line !== ""));
    assert.deepEqual(texts, fixture.io === "pipe" ? [["out"], ["err"]] : [["out", "err"], []]);
    const record = await run.wait();
    assert.deepEqual(record.residue, []);
    const exit = { reason: "exit", actor: "", code, signal: null };
    await fixture.checkEnd(supervisor, record, exit, [root]);
  },
}));

const manualCancel: Cell = {
  name: "manual cancel",
  async run(fixture) {
    const supervisor = await fixture.supervisor();
    const run = await fixture.spawn(supervisor, fixture.tree(1));
    const pids = await fixture.treePids(2);
    await run.cancel({ actor: "test:me" });
    const exit = { reason: "manual-cancel", actor: "test:me" };
    await fixture.checkEnd(supervisor, await run.wait(), exit, pids);
  },
};

const duplicateCancel: Cell = {
  name: "duplicate cancel",
  async run(fixture) {
    const supervisor = await fixture.supervisor();
    const run = await fixture.spawn(supervisor, fixture.tree(1));
    const pids = await fixture.treePids(2);
    const first = run.cancel({ actor: "test:me" });
    await Promise.all([first, run.cancel({ actor: "test:other", reason: "shutdown" })]);
    const record = await run.wait();
    // After the end, too, the first reason stands.
    await run.cancel({ actor: "test:late" });
    const exit = { reason: "manual-cancel", actor: "test:me" };
    await fixture.checkEnd(supervisor, record, exit, pids);
  },
};

const deadlines = (
  [
    ["overall-timeout", "overall timeout", "timeoutMs"],
    ["no-output-timeout", "no-output timeout", "noOutputTimeoutMs"],
  ] as const
).map(([reason, name, option]): Cell => ({
  name,
  async run(fixture) {
    const { deadlineMs } = fixture.platform;
    const supervisor = await fixture.supervisor();
    const run = await fixture.spawn(supervisor, fixture.tree(1), { [option]: deadlineMs });
    const pids = await fixture.treePids(2);
    const record = await run.wait();
    // The clock of the record and that of the deadline are not the same.
    assert.ok((record.endedAt ?? 0) - (record.startedAt ?? 0) >= deadlineMs - 100);
    await fixture.checkEnd(supervisor, record, { reason, actor: "deadline" }, pids);
  },
}));

export const endCells: readonly Cell[] = [...directExits, manualCancel, duplicateCancel, ...deadlines];
