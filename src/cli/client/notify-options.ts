import { InvalidArgumentError, Option, type Command } from "commander";
import type { GatewayClient } from "../../api/client.js";
import type { ResponseOf } from "../../api/contract.js";
import { CHAT_KINDS, DELIVER_MODES, NOTIFY_POLICIES } from "../../model/enums.js";
import type { ChatOrigin, DeliverMode, NotifyPolicy } from "../../model/task.js";
import { notice } from "../print/errors-and-notices.js";
import { sessionToken } from "./requester.js";

/** The options that name a chat. */
export interface ChatFlags {
  readonly notifyChannel?: string;
  /** The former name of `notifyChannel`. */
  readonly tell?: string;
  readonly notifyAddress?: string;
  readonly notifyChat?: ChatOrigin["chat"];
}

/** The notification options of commands that start background work. */
export interface NotifyFlags extends ChatFlags {
  readonly notify?: NotifyPolicy;
  readonly deliver?: DeliverMode;
}

/** `condition`: when the options apply, as a prefix of their help. */
export function addChatOptions(command: Command, condition = ""): Command {
  return command
    .option("--notify-channel <channel>", `${condition}notify this channel of the config file`)
    .option("--notify-address <address>", "with --notify-channel: the chat or thread in it", address)
    .addOption(
      new Option("--notify-chat <kind>", "with --notify-channel: the kind of that chat").choices(CHAT_KINDS),
    )
    .addOption(new Option("--tell <channel>", "the former name of --notify-channel").hideHelp());
}

export function addNotifyOptions(command: Command): Command {
  return addChatOptions(command, "with --detach: ")
    .addOption(
      new Option("--notify <policy>", "with --detach: when to notify the requester").choices(NOTIFY_POLICIES),
    )
    .addOption(
      new Option("--deliver <receiver>", "with --detach, for a session: who is notified of the end").choices(
        DELIVER_MODES,
      ),
    );
}

function address(text: string): string {
  if (text !== "") return text;
  throw new InvalidArgumentError("Write an address, such as -1001234567890/17 for Telegram.");
}

/** The chat of a request. */
export function originOf({ notifyChannel, tell, notifyAddress, notifyChat }: ChatFlags) {
  const channel = notifyChannel ?? tell;
  if (channel === undefined) return {};
  return {
    origin: {
      channel,
      ...(notifyAddress === undefined ? {} : { address: notifyAddress }),
      ...(notifyChat === undefined ? {} : { chat: notifyChat }),
    },
  };
}

/** The notification fields of a request. */
export function notifyBody(flags: NotifyFlags) {
  const { notify, deliver } = flags;
  return {
    ...(notify === undefined ? {} : { notify }),
    ...(deliver === undefined ? {} : { deliver }),
    ...originOf(flags),
  };
}

/** A notification option of a command that waits for the result itself. Null: there is none. */
export function misplacedNotifyOption(flags: NotifyFlags): string | null {
  const { notify, notifyChannel, tell, notifyAddress, notifyChat, deliver } = flags;
  const given = [
    notifyChannel === undefined ? null : "--notify-channel",
    tell === undefined ? null : "--tell",
    notifyAddress === undefined ? null : "--notify-address",
    notifyChat === undefined ? null : "--notify-chat",
    notify === undefined ? null : "--notify",
    deliver === undefined ? null : "--deliver",
  ].find((name) => name !== null);
  return given === undefined ? null : `${given} is for work in the background`;
}

/** An option about a chat without its channel. Null: there is none. */
export function channellessOption(flags: ChatFlags): string | null {
  const { notifyChannel, tell, notifyAddress, notifyChat } = flags;
  if ((notifyChannel ?? tell) !== undefined) return null;
  if (notifyAddress !== undefined) return "--notify-address needs --notify-channel <channel>";
  return notifyChat === undefined ? null : "--notify-chat needs --notify-channel <channel>";
}

/** A notification without a target: the operator has no session that could be notified. Null: there is a target. */
export async function targetlessNotifyOption(flags: NotifyFlags): Promise<string | null> {
  const channelless = channellessOption(flags);
  if (channelless !== null) return channelless;
  const { notify, notifyChannel, tell } = flags;
  if (!wantsNotification(notify) || (notifyChannel ?? tell) !== undefined || sessionToken() !== null)
    return null;
  if (await hasDefaultChannel()) return null;
  return `--notify ${notify} has no target: add --notify-channel <channel>, or set notify.channel in the config`;
}

/** The gateway decides by the config that it read; this check avoids the start of a gateway that would refuse the request. */
async function hasDefaultChannel(): Promise<boolean> {
  const { readSettings } = await import("../../config/resolve-settings.js");
  return readSettings().then(
    ({ config }) => config.notify.channel !== undefined,
    () => true,
  );
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
