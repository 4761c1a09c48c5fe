import type { IncomingMessage } from "node:http";
import { json } from "node:stream/consumers";
import { PeerUnreachable, StoreUnreadable } from "../../errors.js";
import type { AnswerOf, HeardOf } from "../contract/contract.js";
import type { Requester } from "../server/requester.js";
import { Peer } from "./peer.js";
import type { PeerBook } from "./peer-book.js";
import { stating } from "./stated.js";

export interface StopByPeersParts {
  readonly book: Pick<PeerBook, "reachable">;
  readonly instanceId: string;
}

/**
 * Stop a run whose record cannot be read: asks every known peer, and the peer that holds the run stops it. Rejects with
 * StoreUnreadable if no peer holds the run.
 */
export async function stopByPeers(
  { book, instanceId }: StopByPeersParts,
  requester: Requester,
  runId: string,
  body: HeardOf<"kill">["body"],
  unread: unknown,
): Promise<AnswerOf<"kill">> {
  const asked = book.reachable().map(async (gateway) => {
    const peer = new Peer(instanceId, gateway, (why, how) => new PeerUnreachable(runId, gateway, why, how));
    return kill(peer, requester, runId, body);
  });
  return Promise.any(asked).catch(() => {
    throw new StoreUnreadable(runId, unread);
  });
}

async function kill(
  peer: Peer,
  requester: Requester,
  runId: string,
  body: HeardOf<"kill">["body"],
): Promise<AnswerOf<"kill">> {
  const text = JSON.stringify(body);
  const headers = {
    ...stating(requester),
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(text)),
  };
  const asking = peer.ask("POST", `/v1/runs/${runId}/kill`, headers, () => false);
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    asking.once("response", resolve);
    asking.on("error", reject);
    asking.end(text);
  });
  const said = await json(answer);
  if (answer.statusCode !== 200) throw peer.unreachable(`it answered ${answer.statusCode ?? 0}`);
  return said as AnswerOf<"kill">;
}
