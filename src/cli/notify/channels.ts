import { isatty } from "node:tty";
import type { AnswerOf } from "../../gateway/contract/contract.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { say } from "../complain.js";
import { mustBeOperator } from "../gateway/connect.js";
import { answeringGateway } from "../gateway/look.js";
import { paletteFor } from "../palette.js";
import { print } from "../runs/print.js";
import { table } from "../runs/table.js";

type Channels = AnswerOf<"listChannels">["channels"];

export async function showChannels(json: boolean): Promise<number> {
  mustBeOperator("see the channels");
  const running = await answeringGateway();
  const channels = (await running?.client.listChannels())?.channels ?? (await configured());
  if (json) print(`${JSON.stringify(channels, null, 2)}\n`);
  else if (channels.length === 0) say("there are no channels; docs/channels.md says how to have one", "dim");
  else print(`${lines(channels, isatty(1) ? process.stdout.columns : null).join("\n")}\n`);
  return 0;
}

/** Without a gateway: what the next one would know. */
async function configured(): Promise<Channels> {
  const [{ readSettings }, { listChannels }] = await Promise.all([
    import("../../gateway/settings.js"),
    import("../../gateway/handlers/channels.js"),
  ]);
  return listChannels((await readSettings()).config.channels);
}

function lines(channels: Channels, width: number | null): string[] {
  const rows = channels.map(({ name, kind, where }) => [name, kind, sanitizeLine(where)]);
  const [head, ...rest] = table([["CHANNEL", "KIND", "WHERE"], ...rows], width);
  return [paletteFor(1).bold(head ?? ""), ...rest];
}
