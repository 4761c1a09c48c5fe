import type { ChannelEntryOf } from "../config/channels.js";
import { defaults } from "../defaults.js";
import type { Notification } from "../model/outbox.js";
import { sanitizeLine, sanitizeText } from "../text/sanitize.js";
import { truncate } from "../text/truncate.js";
import type { Channel } from "./channel.js";
import { notificationVariables, runChannelProgram, type Spawner } from "./command.js";

/** Shows the notification with a program of the operating system. The delivery fails if there is none. */
export function desktopChannel(
  name: string,
  entry: ChannelEntryOf<"desktop">,
  spawner: Spawner,
  platform: NodeJS.Platform = process.platform,
): Channel {
  return {
    deliver: (notification, address, signal) =>
      runChannelProgram(
        spawner,
        {
          name,
          argv: desktopCommand(notification, platform),
          env: notificationVariables(
            { ...notification, text: bodyOf(notification), label: titleOf(notification) },
            address,
          ),
          input: "",
          timeoutMs: entry["timeout-ms"],
        },
        signal,
      ),
  };
}

/** The program that shows notifications. */
export function desktopProgram(platform: NodeJS.Platform = process.platform): string {
  if (platform === "win32") return "powershell.exe";
  return platform === "darwin" ? "/usr/bin/osascript" : "notify-send";
}

/** A command line in which no part of the notification can act as an option, markup or script. */
export function desktopCommand(notification: Notification, platform: NodeJS.Platform): readonly string[] {
  const program = desktopProgram(platform);
  const title = titleOf(notification);
  const body = bodyOf(notification);
  // The script reads the text from the environment.
  if (platform === "win32") return [program, "-NoProfile", "-NonInteractive", "-Command", POWERSHELL_TOAST];
  // The title begins with a word, so osascript takes it and the rest as arguments.
  if (platform === "darwin")
    return [program, ...APPLESCRIPT_LINES.flatMap((line) => ["-e", line]), title, body];
  return [program, "--app-name=Holdfast", "--", title, escapeForNotifySend(body)];
}

const APPLESCRIPT_LINES = [
  "on run argv",
  "display notification (item 2 of argv) with title (item 1 of argv)",
  "end run",
];

const POWERSHELL_TOAST = [
  "$ErrorActionPreference = 'Stop'",
  "$manager = [Windows.UI.Notifications.ToastNotificationManager, Windows.UI.Notifications, ContentType = WindowsRuntime]",
  "$toast = $manager::GetTemplateContent([Windows.UI.Notifications.ToastTemplateType]::ToastText02)",
  "$lines = $toast.GetElementsByTagName('text')",
  "[void]$lines.Item(0).AppendChild($toast.CreateTextNode($env:HOLDFAST_NOTIFICATION_LABEL))",
  "[void]$lines.Item(1).AppendChild($toast.CreateTextNode($env:HOLDFAST_NOTIFICATION_TEXT))",
  "$shown = [Windows.UI.Notifications.ToastNotification]::new($toast)",
  "$manager::CreateToastNotifier('Holdfast').Show($shown)",
].join("; ");

function titleOf({ label }: Notification): string {
  return truncate(`Holdfast: ${sanitizeLine(label)}`, defaults.desktopTextChars);
}

function bodyOf({ text }: Notification): string {
  return truncate(sanitizeText(text), defaults.desktopTextChars);
}

/** notify-send resolves backslash escapes in the body, and the desktop then interprets markup in it. */
function escapeForNotifySend(body: string): string {
  return body
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll("\\", "\\\\");
}
