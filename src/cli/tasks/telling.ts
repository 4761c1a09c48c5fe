import { Option, type Command } from "commander";
import type { GatewayClient } from "../../gateway/client.js";
import { NOTIFY_POLICIES, type NotifyPolicy } from "../../store/task-record.js";
import { say } from "../complain.js";
import { sessionToken } from "../session-token.js";
import type { Task } from "./status.js";

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

/** What was said although nobody would be told: the operator has no session to be told in. Null: somebody would. */
export function unheardTelling({ notify, tell }: TellFlags): string | null {
  if (!asksToHear(notify) || tell !== undefined || sessionToken() !== null) return null;
  return `--notify ${notify} alone tells nobody: add --tell <channel>`;
}

/** The same, where only its gateway knows whose work it is. */
export async function sayIfUnheard(
  client: Pick<GatewayClient, "getTask">,
  id: string,
  { notify }: { readonly notify?: NotifyPolicy | undefined },
): Promise<void> {
  if (!asksToHear(notify)) return;
  // Only a hint: what was asked for is begun.
  const task = (await client.getTask({ params: { id } }).catch(() => null))?.task;
  if (task?.targets.length === 0) sayUnheard(task);
}

export function sayUnheard({ taskId }: Task): void {
  say(`whom to tell was not said when ${taskId} was begun: nobody hears of it`, "yellow");
}

export function asksToHear(notify: NotifyPolicy | undefined): boolean {
  return notify !== undefined && notify !== "silent";
}
