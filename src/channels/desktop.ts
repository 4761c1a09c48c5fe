import { defaults } from "../defaults.js";
import { sanitizeLine, sanitizeText } from "../output/sanitize.js";
import type { Notification } from "../tasks/notification.js";
import { cut } from "../tasks/texts.js";
import type { Channel } from "./channel.js";
import { variablesOf } from "./command.js";
import type { EntryOf } from "./entry.js";
import { callProgram, type Spawner } from "./program.js";

/** A program of the system shows it; where there is none, nobody sees it, and that is said. */
export function desktopChannel(
  name: string,
  entry: EntryOf<"desktop">,
  spawner: Spawner,
  platform: NodeJS.Platform = process.platform,
): Channel {
  return {
    deliver: (notification, address, signal) =>
      callProgram(
        spawner,
        {
          name,
          argv: desktopCommand(notification, platform),
          env: variablesOf(
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

/** Which program it is that shows notifications. */
export function desktopProgram(platform: NodeJS.Platform = process.platform): string {
  if (platform === "win32") return "powershell.exe";
  return platform === "darwin" ? "/usr/bin/osascript" : "notify-send";
}

/** A command line in which nothing of the notification is taken for an option, for markup or for a script. */
export function desktopCommand(notification: Notification, platform: NodeJS.Platform): readonly string[] {
  const program = desktopProgram(platform);
  const title = titleOf(notification);
  const body = bodyOf(notification);
  // There, the text is in the environment, where the script reads it.
  if (platform === "win32") return [program, "-NoProfile", "-NonInteractive", "-Command", TOAST];
  // The title begins with a word, so that whatever follows it is an argument, too.
  if (platform === "darwin") return [program, ...SCRIPT.flatMap((line) => ["-e", line]), title, body];
  return [program, "--app-name=Holdfast", "--", title, forNotifySend(body)];
}

const SCRIPT = [
  "on run argv",
  "display notification (item 2 of argv) with title (item 1 of argv)",
  "end run",
];

const TOAST = [
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
  return cut(`Holdfast: ${sanitizeLine(label)}`, defaults.desktopTextChars);
}

function bodyOf({ text }: Notification): string {
  return cut(sanitizeText(text), defaults.desktopTextChars);
}

/** It undoes backslash escapes in the body, and the desktop then reads markup in it. */
function forNotifySend(body: string): string {
  return body
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll("\\", "\\\\");
}
