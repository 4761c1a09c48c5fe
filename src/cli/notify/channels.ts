import { isatty } from "node:tty";
import type { ResponseOf } from "../../api/contract.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { notice } from "../print/stderr.js";
import { assertOperator } from "../client/connect.js";
import { tryConnectForReading } from "../client/read-client.js";
import { paletteFor } from "../print/palette.js";
import { print } from "../print/stdout.js";
import { formatTable } from "../print/table.js";

type Channels = ResponseOf<"listChannels">["channels"];

export async function printChannels(json: boolean): Promise<number> {
  assertOperator("see the channels");
  const running = await tryConnectForReading();
  const channels = (await running?.client.listChannels())?.channels ?? (await configuredChannels());
  if (json) print(`${JSON.stringify(channels, null, 2)}\n`);
  else if (channels.length === 0)
    notice("there are no channels; docs/channels.md says how to have one", "dim");
  else print(`${channelTable(channels, isatty(1) ? process.stdout.columns : null).join("\n")}\n`);
  return 0;
}

/** Without a gateway: what the next one would know. */
async function configuredChannels(): Promise<Channels> {
  const [{ readSettings }, { describeChannels: listChannels }] = await Promise.all([
    import("../../config/settings.js"),
    import("../../gateway/routes/channels.js"),
  ]);
  return listChannels((await readSettings()).config.channels);
}

function channelTable(channels: Channels, width: number | null): string[] {
  const rows = channels.map(({ name, kind, where }) => [name, kind, sanitizeLine(where)]);
  const [head, ...rest] = formatTable([["CHANNEL", "KIND", "WHERE"], ...rows], width);
  return [paletteFor(1).bold(head ?? ""), ...rest];
}
