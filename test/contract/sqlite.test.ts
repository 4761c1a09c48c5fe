import { openSqliteStore } from "../../src/store/sqlite/open.js";
import { temporaryDirectory } from "../support/temporary-directory.js";
import { storeContract } from "./store-contract.js";

storeContract("SQLite", async () => {
  const directory = await temporaryDirectory();
  return {
    open: (options = {}) => openSqliteStore({ path: `${directory.path}/store.sqlite`, ...options }),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
});
