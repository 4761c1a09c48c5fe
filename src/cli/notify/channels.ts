import type { ResponseOf } from "../../api/contract.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { tryConnectForReading } from "../client/read-client.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { formatTable, terminalWidth } from "../print/table.js";
import { paletteFor } from "../print/terminal.js";

type Channels = ResponseOf<"listChannels">["channels"];

export async function printChannels(json: boolean): Promise<number> {
  assertOperator("see the channels");
  const running = await tryConnectForReading();
  const channels = (await running?.client.listChannels())?.channels ?? (await configuredChannels());
  if (json) print(toJson(channels, 2));
  else if (channels.length === 0)
    notice("there are no channels; docs/reference/channels.md says how to have one", "dim");
  else print(`${channelTable(channels, terminalWidth()).join("\n")}\n`);
  return 0;
}

/** The channels that the next gateway would use. */
async function configuredChannels(): Promise<Channels> {
  const [{ readSettings }, { describeChannels: listChannels }] = await Promise.all([
    import("../../config/settings.js"),
    import("../../channels/check-channel.js"),
  ]);
  return listChannels((await readSettings()).config.channels);
}

function channelTable(channels: Channels, width: number | null): string[] {
  const rows = channels.map(({ name, kind, where }) => [name, kind, sanitizeLine(where)]);
  const [head, ...rest] = formatTable(["CHANNEL", "KIND", "WHERE"], rows, width);
  return [paletteFor(1).bold(head ?? ""), ...rest];
}

/** Through the gateway, whose environment and config file count. */
export async function testChannelCommand(
  name: string,
  address: string | null,
  json: boolean,
): Promise<number> {
  assertOperator("try a channel");
  const { client } = await connectOrStart();
  const answer = await client.testChannel({
    params: { name },
    body: address === null ? {} : { address },
  });
  if (json) print(toJson(answer, 2));
  else printTestResult(answer);
  return answer.delivered ? 0 : exitCodes.incomplete;
}

function printTestResult({
  channel: { name, where },
  delivered,
  receipt,
  failure,
}: ResponseOf<"testChannel">): void {
  if (delivered) {
    const named = receipt === null ? "" : ` (receipt ${sanitizeLine(receipt)})`;
    print(`delivered by ${name}, ${sanitizeLine(where)}${named}\n`);
    return;
  }
  const again =
    failure?.permanent === true ? "trying again cannot help" : "a notification would be tried again";
  const asked = failure?.retryAfterMs ?? null;
  const when = asked === null ? "" : `, not before ${Math.ceil(asked / 1_000)} s as the receiver asks`;
  notice(`not delivered by ${name}: ${failure?.reason ?? "nobody took it"}; ${again}${when}`, "red");
}
