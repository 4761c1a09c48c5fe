import type { RemoteStop, RemoteStopResult, NewRemoteStop } from "../model/remote-stop.js";
import type { NewRunEvent } from "../model/run-event.js";

/** What gateways ask of each other, whether or not they are there at the same time. */
export interface RemoteStopStore {
  /** Hand it over, and wake its target. False, and nothing written: there is one of this id. */
  insertRemoteStop(command: NewRemoteStop, events: readonly NewRunEvent[]): Promise<boolean>;
  getRemoteStop(id: string): Promise<RemoteStop | null>;
  /** Those for one of these that are not done, oldest first. */
  listRemoteStops(targets: readonly string[]): Promise<readonly RemoteStop[]>;
  /** Those about this run that are not done, oldest first. */
  listRemoteStopsOfRun(runId: string): Promise<readonly RemoteStop[]>;
  /** Its target has it. */
  acceptRemoteStop(id: string): Promise<void>;
  /** What came of it, with its event. False, and nothing written: that has been said. */
  finishRemoteStop(id: string, result: RemoteStopResult, events: readonly NewRunEvent[]): Promise<boolean>;
  /** Forget those that are older on the store's clock, done or not. Returns how many. */
  deleteRemoteStops(olderThanMs: number): Promise<number>;
}
