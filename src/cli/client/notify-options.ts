import { Option, type Command } from "commander";
import type { GatewayClient } from "../../api/client.js";
import type { ResponseOf } from "../../api/contract.js";
import type { NotifyPolicy } from "../../model/task.js";
import { NOTIFY_POLICIES } from "../../model/enums.js";
import { notice } from "../print/stderr.js";
import { sessionToken } from "./requester.js";

/** The notification options of commands that start background work. */
export interface NotifyFlags {
  readonly notify?: NotifyPolicy;
  readonly notifyChannel?: string;
  /** The former name of `notifyChannel`. */
  readonly tell?: string;
}

export function addNotifyOptions(command: Command): Command {
  return command
    .option("--notify-channel <channel>", "with --detach: notify this channel of the config file")
    .addOption(new Option("--tell <channel>", "the former name of --notify-channel").hideHelp())
    .addOption(
      new Option("--notify <policy>", "with --detach: when to notify the requester").choices(NOTIFY_POLICIES),
    );
}

/** The notification fields of a request. */
export function notifyBody({ notify, notifyChannel, tell }: NotifyFlags) {
  const channel = notifyChannel ?? tell;
  return {
    ...(notify === undefined ? {} : { notify }),
    ...(channel === undefined ? {} : { origin: { channel } }),
  };
}

/** A notification option of a command that waits for the result itself. Null: there is none. */
export function misplacedNotifyOption({ notify, notifyChannel, tell }: NotifyFlags): string | null {
  const given = [
    notifyChannel === undefined ? null : "--notify-channel",
    tell === undefined ? null : "--tell",
    notify === undefined ? null : "--notify",
  ].find((name) => name !== null);
  return given === undefined ? null : `${given} is for work in the background`;
}

/** A notification without a target: the operator has no session that could be notified. Null: there is a target. */
export function targetlessNotifyOption({ notify, notifyChannel, tell }: NotifyFlags): string | null {
  if (!wantsNotification(notify) || (notifyChannel ?? tell) !== undefined || sessionToken() !== null)
    return null;
  return `--notify ${notify} has no target: add --notify-channel <channel>`;
}

/** Warns if a task has no notification target; only its gateway knows the session it belongs to. */
export async function warnIfNobodyNotified(
  client: Pick<GatewayClient, "getTask">,
  id: string,
  { notify }: { readonly notify?: NotifyPolicy | undefined },
): Promise<void> {
  if (!wantsNotification(notify)) return;
  // Only a warning: the work has started.
  const task = (await client.getTask({ params: { id } }).catch(() => null))?.task;
  if (task?.targets.length === 0) warnNobodyNotified(task);
}

export function warnNobodyNotified({ taskId }: ResponseOf<"getTask">["task"]): void {
  notice(`${taskId} has no notification target, so no notification will be sent`, "yellow");
}

export function wantsNotification(notify: NotifyPolicy | undefined): boolean {
  return notify !== undefined && notify !== "silent";
}
