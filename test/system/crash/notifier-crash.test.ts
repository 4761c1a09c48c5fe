import { join } from "node:path";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { temporaryDirectory } from "../../support/temporary-directory.js";
import { notifierCrashSuite, soak, type NotifierCrashStore } from "./notifier-crash.js";

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

notifierCrashSuite("records in SQLite", { store: ownFile, lanes: 2, rounds: soak ? 30 : 10 });
