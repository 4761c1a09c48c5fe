import type { CommandRecord, CommandResult, NewCommand } from "./command-record.js";
import type { NewRunEvent } from "./run-event.js";

/** What gateways ask of each other, whether or not they are there at the same time. */
export interface CommandStore {
  /** Hand it over, and wake its target. False, and nothing written: there is one of this id. */
  insertCommand(command: NewCommand, events: readonly NewRunEvent[]): Promise<boolean>;
  getCommand(id: string): Promise<CommandRecord | null>;
  /** Those for one of these that are not done, oldest first. */
  listCommands(targets: readonly string[]): Promise<readonly CommandRecord[]>;
  /** Those about this run that are not done, oldest first. */
  commandsOf(runId: string): Promise<readonly CommandRecord[]>;
  /** Its target has it. */
  acceptCommand(id: string): Promise<void>;
  /** What came of it, with its event. False, and nothing written: that has been said. */
  finishCommand(id: string, result: CommandResult, events: readonly NewRunEvent[]): Promise<boolean>;
  /** Forget those that are older on the store's clock, done or not. Returns how many. */
  forgetCommands(olderThanMs: number): Promise<number>;
}
