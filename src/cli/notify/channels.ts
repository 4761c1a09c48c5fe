import type { ResponseOf } from "../../api/contract.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { tryConnectForReading } from "../client/read-client.js";
import type { JsonFlag } from "../options/command-definition.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { printTable } from "../print/table.js";

type Channels = ResponseOf<"listChannels">["channels"];

export async function printChannels({ json = false }: JsonFlag): Promise<number> {
  assertOperator("list the channels");
  const running = await tryConnectForReading();
  const channels = (await running?.client.listChannels())?.channels ?? (await configuredChannels());
  if (json) print(toJson(channels, 2));
  else if (channels.length === 0) notice("no channels are configured; see docs/reference/channels.md", "dim");
  else
    printTable(
      ["CHANNEL", "KIND", "WHERE"],
      channels.map(({ name, kind, where }) => [name, kind, where]),
    );
  return 0;
}

/** The channels that the next gateway would use. */
async function configuredChannels(): Promise<Channels> {
  const [{ readSettings }, { describeChannels }] = await Promise.all([
    import("../../config/resolve-settings.js"),
    import("../../channels/check-channel.js"),
  ]);
  return describeChannels((await readSettings()).config.channels);
}

/** Through the gateway, whose environment and config file count. */
export async function testChannelCommand(
  name: string,
  { json = false, ...body }: JsonFlag & { readonly address?: string },
): Promise<number> {
  assertOperator("test a channel");
  const { client } = await connectOrStart();
  const answer = await client.testChannel({ params: { name }, body });
  if (json) print(toJson(answer, 2));
  else printTestResult(answer);
  return answer.delivered ? 0 : exitCodes.incomplete;
}

function printTestResult({ channel, delivered, receipt, failure }: ResponseOf<"testChannel">): void {
  const { name, where } = channel;
  if (delivered) {
    const named = receipt === null ? "" : ` (receipt ${sanitizeLine(receipt)})`;
    print(`delivered by ${name}, ${sanitizeLine(where)}${named}\n`);
    return;
  }
  const again = failure?.permanent === true ? "a retry cannot succeed" : "a notification would be retried";
  const retryAfterMs = failure?.retryAfterMs ?? null;
  const when =
    retryAfterMs === null ? "" : `, not before ${Math.ceil(retryAfterMs / 1_000)} s as the receiver requests`;
  notice(`not delivered by ${name}: ${failure?.reason ?? "no receiver accepted it"}; ${again}${when}`, "red");
}
