import { runContract } from "./run-contract.js";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import { messageContract } from "./message-contract.js";
import { commandContract } from "./command-contract.js";
import { gatewayContract } from "./gateway-contract.js";
import { acpContract } from "./acp-contract.js";
import { outboxContract } from "./outbox-contract.js";
import { sessionContract } from "./session-contract.js";
import { taskContract } from "./task-contract.js";
import { temporaryDirectory } from "../support/temporary-directory.js";

const database = async () => {
  const directory = await temporaryDirectory();
  return {
    open: (options: { readonly eventsKept?: number } = {}) =>
      openSqliteStore({ path: `${directory.path}/store.sqlite`, ...options }),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
};

runContract("SQLite", database);
sessionContract("SQLite", database);
gatewayContract("SQLite", database);
commandContract("SQLite", database);
messageContract("SQLite", database);
acpContract("SQLite", database);
taskContract("SQLite", database);
outboxContract("SQLite", database);
