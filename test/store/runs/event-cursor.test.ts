import { expect, test } from "vitest";
import { EventCursor } from "../../../src/store/runs/event-cursor.js";
import type { RunEvent } from "../../../src/model/run-event.js";
import type { EventFilter } from "../../../src/store/runs/contract.js";
import { newRunEvent } from "../../support/store/run-samples.js";

/** Events whose numbers follow a sequence, like a server's. */
class Events {
  all: RunEvent[] = [];
  sequence = 0;

  write(runId: string, at: number): void {
    this.all.push({ ...newRunEvent(runId, at), seq: ++this.sequence });
  }

  /** As it was when it had come so far. */
  goBack(sequence: number): void {
    this.all = this.all.filter(({ seq }) => seq <= sequence);
    this.sequence = sequence;
  }

  readonly listEvents = async (filter: EventFilter): Promise<RunEvent[]> => {
    const { after = 0, limit, newestFirst, runId: wanted } = filter;
    const found = this.all.filter(({ seq, runId }) => seq > after && (wanted ?? runId) === runId);
    return (newestFirst === true ? found.toReversed() : found).slice(0, limit);
  };
  readonly eventsReach = async (): Promise<number> => this.sequence;
}

const runsIn = (events: readonly RunEvent[]): string[] => events.map(({ runId }) => runId);

test("reads each event once, in pages", async () => {
  const events = new Events();
  for (let at = 1; at <= 5; at += 1) events.write(`r${at}`, at);
  const cursor = new EventCursor(events, 1);
  const read = [];
  for (let page = await cursor.next(3); page.events.length > 0; page = await cursor.next(3))
    read.push(...runsIn(page.events));
  expect(read).toEqual(["r2", "r3", "r4", "r5"]);
  expect(await cursor.next(3)).toEqual({ gap: null, events: [], full: false });
});

test("a rolled-back store with fewer events reports one gap, and then the new events", async () => {
  const events = new Events();
  for (let at = 1; at <= 5; at += 1) events.write(`r${at}`, at);
  const cursor = new EventCursor(events, 0);
  await cursor.next(10);
  events.goBack(2);
  events.write("new", 6);
  const { gap, events: told } = await cursor.next(10);
  expect([gap, runsIn(told)]).toEqual([{ type: "gap", after: 5, from: 2 }, ["new"]]);
  events.write("newer", 7);
  expect(await cursor.next(10)).toMatchObject({ gap: null, events: [{ runId: "newer" }] });
});

test("a rolled-back store with more events than before also reports the gap", async () => {
  const events = new Events();
  for (let at = 1; at <= 3; at += 1) events.write(`r${at}`, at);
  const cursor = new EventCursor(events, 0);
  await cursor.next(10);
  events.goBack(1);
  for (let at = 4; at <= 8; at += 1) events.write(`new${at}`, at);
  const { gap, events: told } = await cursor.next(10);
  expect(gap).toEqual({ type: "gap", after: 3, from: 1 });
  expect(runsIn(told)).toEqual(["new4", "new5", "new6", "new7", "new8"]);
});

test("a filtered reader also gets the gap when other events have the numbers", async () => {
  const events = new Events();
  for (let at = 1; at <= 3; at += 1) events.write("mine", at);
  const cursor = new EventCursor(events, 0, { runId: "mine" });
  await cursor.next(10);
  events.goBack(1);
  for (const [at, runId] of ["mine", "other", "other", "mine"].entries()) events.write(runId, 4 + at);
  const { gap, events: told } = await cursor.next(10);
  expect(gap).toEqual({ type: "gap", after: 3, from: 1 });
  expect(told.map(({ at }) => at)).toEqual([4, 7]);
  events.all = events.all.slice(-1);
  events.write("other", 8);
  expect(await cursor.next(10)).toMatchObject({ gap: null, events: [] });
});

test("a cursor ahead of the store gets a gap, and continues at the end", async () => {
  const events = new Events();
  events.write("old", 1);
  const cursor = new EventCursor(events, 99);
  expect(await cursor.next(10)).toMatchObject({ gap: { after: 99, from: 1 }, events: [] });
  events.write("new", 2);
  expect(await cursor.next(10)).toMatchObject({ gap: null, events: [{ runId: "new" }] });
});

test("deleted events are no gap", async () => {
  const events = new Events();
  for (let at = 1; at <= 3; at += 1) events.write(`r${at}`, at);
  const cursor = new EventCursor(events, 0);
  await cursor.next(10);
  events.all = [];
  expect(await cursor.next(10)).toMatchObject({ gap: null, events: [] });
  events.write("r4", 4);
  expect(await cursor.next(10)).toMatchObject({ gap: null, events: [{ runId: "r4" }] });
});
