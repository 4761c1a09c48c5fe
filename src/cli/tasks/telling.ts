import { Option, type Command } from "commander";
import { NOTIFY_POLICIES, type NotifyPolicy } from "../../store/task-record.js";

/** Who hears of work in the background, and when, as a command line says it. */
export interface TellFlags {
  readonly notify?: NotifyPolicy;
  readonly tell?: string;
}

export function telling(command: Command): Command {
  return command
    .option("--tell <channel>", "in the background: tell that channel of the config what came of it")
    .addOption(
      new Option("--notify <policy>", "in the background: of what its requester is told").choices(
        NOTIFY_POLICIES,
      ),
    );
}

/** As a gateway is asked. */
export function told({ notify, tell }: TellFlags) {
  return {
    ...(notify === undefined ? {} : { notify }),
    ...(tell === undefined ? {} : { origin: { channel: tell } }),
  };
}

/** The option that was said although nobody need be told: whoever waits has the answer. Null: none. */
export function misplacedTelling({ notify, tell }: TellFlags): string | null {
  const name = tell !== undefined ? "--tell" : notify !== undefined ? "--notify" : null;
  return name === null ? null : `${name} is for work in the background`;
}
