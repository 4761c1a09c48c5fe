import { afterEach, beforeEach } from "vitest";
import type { RunStore } from "../../../src/store/runs/contract.js";

/** One empty database; each `open` is another supervisor on it. */
export interface TestDatabase<Store extends RunStore = RunStore> extends AsyncDisposable {
  open(options?: { readonly eventsKept?: number }): Promise<Store>;
}

/** Opens two supervisors on an empty database before each test, and closes them afterwards. */
export function twoSupervisors<Store extends RunStore>(
  createDatabase: () => Promise<TestDatabase<Store>>,
  opened: (opened: {
    readonly database: TestDatabase<Store>;
    readonly store: Store;
    readonly other: Store;
  }) => void | Promise<void>,
): void {
  const open: AsyncDisposable[] = [];
  beforeEach(async () => {
    const database = await createDatabase();
    const store = await database.open();
    const other = await database.open();
    open.push(store, other, database);
    await opened({ database, store, other });
  });
  afterEach(async () => {
    for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
  });
}
