import type { ResponseOf } from "../../api/contract.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { notice } from "../print/stderr.js";
import { exitCodes } from "../print/exit-code.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { print } from "../print/stdout.js";

/** Through the gateway: its environment and its config are the ones that count. */
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
  if (json) print(`${JSON.stringify(answer, null, 2)}\n`);
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
