import { storeContract } from "../store/contract.js";
import { Database } from "./database.js";
import { StorePort } from "./store-port.js";

storeContract("simulated", async () => {
  const database = new Database(
    () => Math.floor(performance.now()),
    () => Date.now(),
  );
  return {
    open: async (options) => new StorePort(database, async (_, work) => work(), options),
    [Symbol.asyncDispose]: async () => undefined,
  };
});
