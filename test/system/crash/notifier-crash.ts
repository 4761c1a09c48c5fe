import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import type { Store } from "../../../src/store/store.js";
import type { Notification } from "../../../src/model/outbox.js";
import { startChildBeside, type ChildHandle } from "../../support/store/child-process.js";

/** Where a worker is killed (see `children/worker.mjs`), in the order in which it gets there. */
const NOTIFIER_STEPS = [
  "created",
  "started",
  "finishing",
  "committed",
  "claiming",
  "claimed",
  "sending",
  // By the receiver, which has read everything and answers nothing.
  "received",
  "answered",
  "settling",
  "settled",
] as const;

export const soak = process.env["HOLDFAST_SOAK"] === "1";
/** A step is reached by the first, the second, … of a worker's messages. */
const MESSAGES_PER_STEP = 3;

/** A store of its own for each lane of the suite. */
export interface NotifierCrashStore extends AsyncDisposable {
  /** The path of a SQLite file, or a database's address. */
  readonly place: string;
  open(): Promise<Store>;
  /** Between two workers, when half of them were killed. */
  halfway?(): Promise<void>;
}

export interface NotifierCrashOptions {
  readonly store: () => Promise<NotifierCrashStore>;
  /** Stores with a worker each, at the same time. */
  readonly lanes: number;
  /** How often the worker of a lane is killed at each step. */
  readonly rounds: number;
}

/** A real receiver, which notes what it has read, in order. */
async function startReceiver(): Promise<
  {
    readonly url: string;
    readonly got: readonly Notification[];
    /** Instead of an answer, once, after so many. */
    striking(times: number, strike: (read: Notification) => Promise<void>): void;
  } & AsyncDisposable
> {
  const got: Notification[] = [];
  let left = 0;
  let strikes: (read: Notification) => Promise<void> = async () => undefined;
  const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const read = JSON.parse(await text(request)) as Notification;
    got.push(read);
    left -= 1;
    if (left === 0) await strikes(read);
    response.end();
  };
  const server = createServer((request, response) => {
    // Whoever is killed in the middle of what it says has said nothing.
    receive(request, response).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    got,
    striking: (times, strike) => {
      left = times;
      strikes = strike;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Workers are killed at each step between the end of a task and the note that its requester was told. */
export function notifierCrashSuite(
  name: string,
  { store: openStore, lanes, rounds }: NotifierCrashOptions,
): void {
  const kills = NOTIFIER_STEPS.length * rounds;
  // A worker takes half a second of processor time; this is a machine with much else to do.
  const timeout = kills * 15_000 + 60_000;
  describe.concurrent(`SIGKILL of a notifier, ${name}`, () => {
    for (let lane = 0; lane < lanes; lane += 1)
      test(
        `nothing is lost, nothing has two ids, and what is repeated says so (${lane})`,
        { timeout },
        async () => {
          await using place = await openStore();
          await using receiver = await startReceiver();
          const work = (worker: string, at: string, times: number): ChildHandle =>
            startChildBeside(
              import.meta.url,
              "worker",
              resolve("dist"),
              place.place,
              receiver.url,
              worker,
              at,
              String(times),
            );
          const struck: Notification[] = [];
          for (let kill = 0; kill < kills; kill += 1) {
            const step = NOTIFIER_STEPS[kill % NOTIFIER_STEPS.length] ?? expect.fail("no step");
            const times = 1 + ((lane + Math.floor(kill / NOTIFIER_STEPS.length)) % MESSAGES_PER_STEP);
            if (kill === Math.floor(kills / 2)) await place.halfway?.();
            await using worker = work(`w${kill}`, step, times);
            if (step === "received")
              receiver.striking(times, async (notification) => {
                struck.push(notification);
                await worker.kill();
              });
            expect(await worker.ended, `${step}: it was killed`).toBeNull();
          }
          await using last = work("last", "none", 0);
          expect(await last.ended).toBe(0);

          await using store = await place.open();
          const tasks = await store.listTasks({ limit: 10_000 });
          // One that is killed over what its predecessor left makes none of its own; the last one makes three.
          expect(tasks.length).toBeGreaterThan(3);
          for (const { taskId, status, delivery } of tasks) {
            expect([status, delivery]).toEqual(["succeeded", "delivered"]);
            const events = (await store.listTaskEvents(taskId)).map(({ type }) => type);
            expect(events.filter((type) => type === "ended")).toHaveLength(1);
            expect(events.filter((type) => type === "started")).toHaveLength(1);
            const told = receiver.got.filter((each) => each.taskId === taskId);
            const ends = told.filter(({ kind }) => kind === "terminal");
            expect(ends.length, "heard of").toBeGreaterThan(0);
            expect(new Set(ends.map(({ id }) => id))).toEqual(new Set([`task-terminal:${taskId}`]));
            expect(told.at(-1)?.kind, "a change is told before the end or not at all").toBe("terminal");
          }
          const ids = receiver.got.map(({ id }) => id);
          for (const [index, each] of receiver.got.entries())
            if (ids.indexOf(each.id) < index) expect(each).toMatchObject({ repeat: true });
          expect(struck).toHaveLength(rounds);
          for (const { id, kind } of struck)
            if (kind === "terminal") expect(ids.filter((each) => each === id).length).toBeGreaterThan(1);
        },
      );
  });
}
