import { runContract } from "../../contract/runs/run-contract.js";
import { SimulatedDatabase } from "./database.js";
import { SimulatedStore } from "./store.js";

runContract("simulated", async () => {
  const database = new SimulatedDatabase(
    () => Math.floor(performance.now()),
    () => Date.now(),
  );
  return {
    open: async (options) => new SimulatedStore(database, async (_, work) => work(), options),
    [Symbol.asyncDispose]: async () => undefined,
  };
});
