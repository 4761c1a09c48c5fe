import { Option, type Command } from "commander";
import type { GatewayClient } from "../../api/client.js";
import type { ResponseOf } from "../../api/contract.js";
import type { NotifyPolicy } from "../../model/task.js";
import { NOTIFY_POLICIES } from "../../model/enums.js";
import { notice } from "../print/stderr.js";
import { sessionToken } from "./requester.js";

/** Who hears of work in the background, and when, as a command line says it. */
export interface NotifyFlags {
  readonly notify?: NotifyPolicy;
  readonly tell?: string;
}

export function addNotifyOptions(command: Command): Command {
  return command
    .option("--tell <channel>", "in the background: tell that channel of the config what came of it")
    .addOption(
      new Option("--notify <policy>", "in the background: of what its requester is told").choices(
        NOTIFY_POLICIES,
      ),
    );
}

/** As a gateway is asked. */
export function notifyBody({ notify, tell }: NotifyFlags) {
  return {
    ...(notify === undefined ? {} : { notify }),
    ...(tell === undefined ? {} : { origin: { channel: tell } }),
  };
}

/** The option that was said although nobody need be told: whoever waits has the answer. Null: none. */
export function misplacedNotifyOption({ notify, tell }: NotifyFlags): string | null {
  const name = tell !== undefined ? "--tell" : notify !== undefined ? "--notify" : null;
  return name === null ? null : `${name} is for work in the background`;
}

/** What was said although nobody would be told: the operator has no session to be told in. Null: somebody would. */
export function targetlessNotifyOption({ notify, tell }: NotifyFlags): string | null {
  if (!wantsNotification(notify) || tell !== undefined || sessionToken() !== null) return null;
  return `--notify ${notify} alone tells nobody: add --tell <channel>`;
}

/** The same, where only its gateway knows whose work it is. */
export async function warnIfNobodyNotified(
  client: Pick<GatewayClient, "getTask">,
  id: string,
  { notify }: { readonly notify?: NotifyPolicy | undefined },
): Promise<void> {
  if (!wantsNotification(notify)) return;
  // Only a hint: what was asked for is begun.
  const task = (await client.getTask({ params: { id } }).catch(() => null))?.task;
  if (task?.targets.length === 0) warnNobodyNotified(task);
}

export function warnNobodyNotified({ taskId }: ResponseOf<"getTask">["task"]): void {
  notice(`whom to tell was not said when ${taskId} was begun: nobody hears of it`, "yellow");
}

export function wantsNotification(notify: NotifyPolicy | undefined): boolean {
  return notify !== undefined && notify !== "silent";
}
