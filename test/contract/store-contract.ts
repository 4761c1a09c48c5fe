import type { Store } from "../../src/store/store.js";
import { acpContract } from "./acp-contract.js";
import { approvalContract } from "./approval-contract.js";
import { commandContract, gatewayContract } from "./gateway-contract.js";
import { groupContract } from "./group-contract.js";
import { messageContract } from "./message-contract.js";
import { outboxChangesContract } from "./outbox-changes-contract.js";
import { outboxContract } from "./outbox-contract.js";
import { runContract } from "./runs/run-contract.js";
import { sessionContract } from "./session-contract.js";
import { taskContract } from "./task-contract.js";
import { tokenContract } from "./token-contract.js";
import type { TestDatabase } from "../support/store/test-database.js";

/** The contract of every store. */
export function storeContract(name: string, createDatabase: () => Promise<TestDatabase<Store>>): void {
  runContract(name, createDatabase);
  sessionContract(name, createDatabase);
  tokenContract(name, createDatabase);
  approvalContract(name, createDatabase);
  gatewayContract(name, createDatabase);
  commandContract(name, createDatabase);
  messageContract(name, createDatabase);
  acpContract(name, createDatabase);
  taskContract(name, createDatabase);
  outboxContract(name, createDatabase);
  outboxChangesContract(name, createDatabase);
  groupContract(name, createDatabase);
}
