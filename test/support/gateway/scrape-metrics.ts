import { request, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";

export type MetricSeries = ReadonlyMap<string, number>;

/** The metrics that the gateway of a state directory reports. */
export async function scrapeMetrics({ home }: { readonly home: string }): Promise<MetricSeries> {
  const token = (await readOperatorToken(home)) ?? "";
  const headers = { authorization: `Bearer ${token}` };
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request({ socketPath: gatewaySocketPath(home), path: "/metrics", headers }, resolve)
      .once("error", reject)
      .end();
  });
  const lines = (await text(answer)).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.replace(/ \S+$/, ""), Number(line.replace(/^.* /, ""))]));
}
