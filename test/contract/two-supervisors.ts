import { afterEach, beforeEach } from "vitest";

interface OpenableDatabase<Store> extends AsyncDisposable {
  open(): Promise<Store>;
}

/** Before each test, an empty database with two supervisors on it, which are closed afterwards, whatever became of them. */
export function twoSupervisors<Store extends AsyncDisposable, Database extends OpenableDatabase<Store>>(
  createDatabase: () => Promise<Database & OpenableDatabase<Store>>,
  opened: (opened: { readonly database: Database; readonly store: Store; readonly other: Store }) => void,
): void {
  const open: AsyncDisposable[] = [];
  beforeEach(async () => {
    const database = await createDatabase();
    const store = await database.open();
    const other = await database.open();
    open.push(store, other, database);
    opened({ database, store, other });
  });
  afterEach(async () => {
    for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
  });
}
