import { expect, test } from "vitest";
import { StateUnusable } from "../../../src/errors.js";
import { GroupCommit } from "../../../src/store/sqlite/group-commit.js";

/** The error of SQLite for a locked database. */
const LOCKED = Object.assign(new Error("database is locked"), { code: "ERR_SQLITE_ERROR", errcode: 5 });

/** A group whose commits are counted. The first write occupies it, so that the next ones wait together. */
function occupiedGroup(flush: () => Promise<void> = async () => {}) {
  const committed: string[] = [];
  const state = { locked: false };
  const group = new GroupCommit({
    async commit(work) {
      if (state.locked) throw LOCKED;
      const before = committed.length;
      try {
        return work();
      } catch (error) {
        committed.length = before;
        throw error;
      }
    },
    flush,
  });
  const write = (name: string, also = (): void => {}): Promise<string> =>
    group.add(() => {
      committed.push(name);
      also();
      return name;
    });
  return { committed, state, write, first: write("first") };
}

const fail = (): never => {
  throw new Error("a bad write");
};

test("a write of a group that fails fails alone", async () => {
  const { committed, write, first } = occupiedGroup();
  const answers = await Promise.allSettled([first, write("one"), write("bad", fail), write("two")]);
  expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
  expect(committed).toEqual(["first", "one", "two"]);
});

test("a write that was committed before the database was locked is answered as committed, and the others are not", async () => {
  const { committed, state, write, first } = occupiedGroup();
  let attempts = 0;
  const lockAfterwards = (): void => {
    attempts += 1;
    // The first attempt is together with the others, and is rolled back.
    state.locked = attempts === 2;
  };
  const answers = await Promise.allSettled([
    first,
    write("one", lockAfterwards),
    write("bad", fail),
    write("two"),
  ]);
  expect(answers).toMatchObject([
    { status: "fulfilled", value: "first" },
    { status: "fulfilled", value: "one" },
    { status: "rejected", reason: LOCKED },
    { status: "rejected", reason: LOCKED },
  ]);
  expect(committed).toEqual(["first", "one"]);
});

test("a write of a failed sync is not answered as durable", async () => {
  const unsynced = new StateUnusable("store", "it could not be synced");
  const { write, first } = occupiedGroup(() => Promise.reject(unsynced));
  await expect(first).rejects.toBe(unsynced);
  const answers = await Promise.allSettled([write("one"), write("bad", fail)]);
  expect(answers).toMatchObject([
    { status: "rejected", reason: unsynced },
    { status: "rejected", reason: { message: "a bad write" } },
  ]);
});
