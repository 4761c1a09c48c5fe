import { storeContract } from "../contract.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { temporaryDirectory } from "../temporary-directory.js";

storeContract("SQLite", async () => {
  const directory = await temporaryDirectory();
  return {
    open: (options = {}) => openSqliteStore({ path: `${directory.path}/store.sqlite`, ...options }),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
});
