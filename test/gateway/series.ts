import { request, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { gatewaySocket } from "../../src/gateway/server/listen.js";
import { readOperatorToken } from "../../src/gateway/server/requester.js";

export type Series = ReadonlyMap<string, number>;

/** What the gateway of a state directory tells Prometheus. */
export async function seriesOf({ home }: { readonly home: string }): Promise<Series> {
  const token = (await readOperatorToken(home)) ?? "";
  const headers = { authorization: `Bearer ${token}` };
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request({ socketPath: gatewaySocket(home), path: "/metrics", headers }, resolve)
      .once("error", reject)
      .end();
  });
  const lines = (await text(answer)).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.replace(/ \S+$/, ""), Number(line.replace(/^.* /, ""))]));
}
