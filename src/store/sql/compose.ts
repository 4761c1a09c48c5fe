import { acpQueries } from "../acp/queries.js";
import { acpWrites } from "../acp/writes.js";
import { gatewayQueries, remoteStopQueries } from "../gateways/queries.js";
import { gatewayWrites, remoteStopWrites } from "../gateways/writes.js";
import { messageQueries } from "../messages/queries.js";
import { messageWrites } from "../messages/writes.js";
import { eventLog } from "../runs/event-log.js";
import { runQueries } from "../runs/queries.js";
import { runWrites } from "../runs/writes.js";
import { sessionQueries } from "../sessions/queries.js";
import { sessionWrites } from "../sessions/writes.js";
import type { ReadStore, Store } from "../store.js";
import { taskQueries } from "../tasks/queries.js";
import { taskWrites } from "../tasks/writes.js";
import type { Reader, SqlEngine } from "./engine.js";

/** A store that only reads: the queries of every entity on one reader. */
export function composeReadStore(reader: Reader): ReadStore {
  return {
    ...runQueries(reader),
    ...sessionQueries(reader),
    ...messageQueries(reader),
    ...acpQueries(reader),
    ...taskQueries(reader),
    ...gatewayQueries(reader),
    ...remoteStopQueries(reader),
    shared: reader.dialect.shared,
    now: () => reader.now(),
    [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose](),
  };
}

/** The store: the queries and writes of every entity on one engine. */
export function composeStore(engine: SqlEngine, eventsKept: number): Store {
  const reads = composeReadStore(engine);
  const log = eventLog(engine, eventsKept);
  return {
    ...reads,
    ...runWrites(engine, log),
    ...sessionWrites(engine),
    ...messageWrites(engine),
    ...acpWrites(engine, log),
    ...taskWrites(engine),
    ...gatewayWrites(engine, reads),
    ...remoteStopWrites(engine, log),
    // Getters, because these values change.
    get generation() {
      return engine.generation;
    },
    get generationChangedAt() {
      return engine.generationChangedAt;
    },
  };
}
