import type { Command } from "commander";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";

const examples = `
Channels are tables [channels.<name>] of the config file: webhook, telegram, slack,
command, desktop and bell; see docs/reference/channels.md. The gateway reads them at its start:
after a change, run \`holdfast gateway restart\`.

Exit status of test: 0 delivered, 1 no such channel, 3 not delivered.

Examples:
  holdfast notify channels
  holdfast notify test ops
  holdfast notify test team --address=-1001234567890/17
`;

export function addNotifyCommand(program: Command, setExitCode: SetExitCode): void {
  const notify = program
    .command("notify")
    .summary("notification channels: list, test")
    .description("Notification channels, and whether notifications arrive.")
    .addHelpText("after", examples);
  notify
    .command("channels", { isDefault: true })
    .alias("list")
    .summary("list channels and their receivers")
    .description("List the channels of the config file and their receivers. Read-only: nothing is sent.")
    .option("--json", "print a JSON array")
    .action(lazyAction(setExitCode, () => import("./channels.js"), "printChannels"));
  notify
    .command("test")
    .summary("send one notification, and print the result")
    .description("Send one notification to a channel, once, and print the receipt or the error.")
    .argument("<channel>", "one of `holdfast notify channels`")
    .option("--address <address>", "the receiver within the channel: a chat, a room")
    .option("--json", "print the result as JSON")
    .action(lazyAction(setExitCode, () => import("./channels.js"), "testChannelCommand"));
}
