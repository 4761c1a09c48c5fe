import type { Command } from "commander";
import type { SetExitCode } from "../options/parsers.js";

const examples = `
Channels are tables [channels.<name>] of the config; see docs/reference/channels.md:
webhook, telegram, slack, command, desktop and bell. The gateway uses them as
they were when it started: after a change, \`holdfast gateway restart\`.

Exit status of test: 0 delivered, 1 there is no such channel, 3 not delivered.

Examples:
  holdfast notify channels
  holdfast notify test ops
  holdfast notify test team --address=-1001234567890/17
`;

export function addNotifyCommand(program: Command, setExitCode: SetExitCode): void {
  const notify = program
    .command("notify")
    .summary("where notifications can go: channels, test")
    .description("Where notifications can go, and whether they arrive.")
    .addHelpText("after", examples);
  notify
    .command("channels")
    .summary("all of them, and where they lead")
    .description("All channels of the config, and where they lead. Only reads: nothing is sent.")
    .option("--json", "as a JSON array")
    .action(async ({ json }: { readonly json?: true }) => {
      const { printChannels } = await import("./channels.js");
      setExitCode(await printChannels(json === true));
    });
  notify
    .command("test")
    .summary("send one notification, and say what came of it")
    .description("Send one notification to a channel, once, and print the receipt or why it did not arrive.")
    .argument("<channel>", "one of `holdfast notify channels`")
    .option("--address <address>", "whom within the channel: a chat, a room")
    .option("--json", "what came of it, as JSON")
    .action(async (channel: string, flags: { readonly address?: string; readonly json?: true }) => {
      const { testChannelCommand } = await import("./channels.js");
      setExitCode(await testChannelCommand(channel, flags.address ?? null, flags.json === true));
    });
}
