import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import type { Notification } from "../../../src/model/outbox.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import type { Store } from "../../../src/store/store.js";
import { repetitions, soak } from "../../support/scale.js";
import { type ChildHandle, startChildBeside } from "../../support/store/child-process.js";
import { startPgBouncer, whyNoPooler } from "../../support/store/postgres-pooler.js";
import { startReplicatedServer } from "../../support/store/postgres-replication.js";
import { startPostgresServer, whyNoPostgres } from "../../support/store/postgres-server.js";
import { temporaryDirectory } from "../../support/temporary-directory.js";

/** Where a worker is killed (see `children/worker.mjs`), in order. */
const NOTIFIER_STEPS = [
  "created",
  "started",
  "finishing",
  "committed",
  "claiming",
  "claimed",
  "sending",
  // Killed by the receiver, which has read the message and not answered.
  "received",
  "answered",
  "settling",
  "settled",
] as const;

/** A worker is killed at its first, second or third message. */
const MESSAGES_PER_STEP = 3;

/** The store of one lane. */
interface NotifierCrashStore extends AsyncDisposable {
  /** The path of a SQLite file, or the URL of a database. */
  readonly place: string;
  open(): Promise<Store>;
  /** Called when half of the workers were killed. */
  halfway?(): Promise<void>;
}

interface NotifierCrashOptions {
  readonly store: () => Promise<NotifierCrashStore>;
  /** Stores with one worker each, at the same time. */
  readonly lanes: number;
  /** How often the worker of a lane is killed at each step. */
  readonly rounds: number;
  readonly steps?: readonly (typeof NOTIFIER_STEPS)[number][];
}

/** An HTTP receiver that keeps the notifications in order. */
async function startReceiver(): Promise<
  {
    readonly url: string;
    readonly got: readonly Notification[];
    /** Calls `strike` once, before the answer to that notification. */
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
    // A worker that is killed while it sends has sent nothing.
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

/** Kills workers at each step between the end of a task and the record that its notification was delivered. */
function notifierCrashSuite(name: string, options: NotifierCrashOptions): void {
  const { store: openStore, lanes, rounds, steps = NOTIFIER_STEPS } = options;
  const kills = steps.length * rounds;
  // A worker takes half a second of CPU time; the machine may be loaded.
  const timeout = kills * 15_000 + 60_000;
  describe.concurrent(`SIGKILL of a notifier, ${name}`, () => {
    for (let lane = 0; lane < lanes; lane += 1)
      test(
        `no notification is lost or has two ids, and a repeated one is marked (${lane})`,
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
            const step = steps[kill % steps.length] ?? expect.fail("no step");
            const times = 1 + ((lane + kill + Math.floor(kill / steps.length)) % MESSAGES_PER_STEP);
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
          // A worker that is killed over the tasks of its predecessor creates none; the last one creates three.
          expect(tasks.length).toBeGreaterThan(3);
          for (const { taskId, status, delivery } of tasks) {
            expect([status, delivery]).toEqual(["succeeded", "delivered"]);
            const events = (await store.listTaskEvents(taskId)).map(({ type }) => type);
            expect(events.filter((type) => type === "ended")).toHaveLength(1);
            expect(events.filter((type) => type === "started")).toHaveLength(1);
            const sent = receiver.got.filter((each) => each.taskId === taskId);
            const ends = sent.filter(({ kind }) => kind === "terminal");
            expect(ends.length, "notifications").toBeGreaterThan(0);
            expect(new Set(ends.map(({ id }) => id))).toEqual(new Set([`task-terminal:${taskId}`]));
            expect(sent.at(-1)?.kind, "a state change is sent before the end or not at all").toBe("terminal");
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

async function ownFile(): Promise<NotifierCrashStore> {
  const directory = await temporaryDirectory();
  const place = join(directory.path, "store.sqlite");
  return {
    place,
    open: () => openSqliteStore({ path: place }),
    async [Symbol.asyncDispose]() {
      await directory[Symbol.asyncDispose]();
    },
  };
}

const rounds = repetitions(1, 30);

notifierCrashSuite("records in SQLite", { store: ownFile, lanes: repetitions(1, 2), rounds });

/** A worker does the same with either store: an ordinary run kills it around the statements of a database. */
const steps = soak ? NOTIFIER_STEPS : (["committed", "claimed", "received", "settling"] as const);

async function throughPooler(): Promise<NotifierCrashStore> {
  const server = await startPostgresServer();
  const pooler = await startPgBouncer(server, { pool_mode: "session" });
  const database = await server.createDatabase();
  const url = pooler.urlOf(database.url);
  return {
    place: url,
    open: () => database.open({ url }),
    async [Symbol.asyncDispose]() {
      await pooler[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

async function overPromotedStandBy(): Promise<NotifierCrashStore> {
  const server = await startReplicatedServer();
  const database = await server.createDatabase();
  return {
    place: database.url,
    open: () => database.open(),
    halfway: () => server.failOver(),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

describe.skipIf(whyNoPooler !== null)("with a pooler,", () => {
  notifierCrashSuite("records in PostgreSQL through PgBouncer", {
    store: throughPooler,
    lanes: 1,
    rounds,
    steps,
  });
});

describe.skipIf(whyNoPostgres !== null)("with a stand-by,", () => {
  const suite = { store: overPromotedStandBy, lanes: 1, rounds, steps };
  notifierCrashSuite("records in PostgreSQL whose primary is killed and whose stand-by is promoted", suite);
});
