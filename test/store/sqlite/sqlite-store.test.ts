import { storeContract } from "../contract.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { acpContract } from "../acp-contract.js";
import { sessionContract } from "../session-contract.js";
import { temporaryDirectory } from "../temporary-directory.js";

const database = async () => {
  const directory = await temporaryDirectory();
  return {
    open: (options: { readonly eventsKept?: number } = {}) =>
      openSqliteStore({ path: `${directory.path}/store.sqlite`, ...options }),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
};

storeContract("SQLite", database);
sessionContract("SQLite", database);
acpContract("SQLite", database);
