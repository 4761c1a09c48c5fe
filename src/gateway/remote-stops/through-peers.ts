import type { IncomingMessage } from "node:http";
import { json } from "node:stream/consumers";
import { PeerUnreachable, StoreUnreadable } from "../../errors.js";
import type { ResponseOf, ParsedRequestOf } from "../../api/contract.js";
import type { Requester } from "../../sessions/requester.js";
import { Peer } from "../peers/peer.js";
import type { PeerDirectory } from "../peers/peer-directory.js";
import { onBehalfOfHeader } from "../peers/on-behalf-of.js";

export interface StopThroughPeersDeps {
  readonly peerDirectory: Pick<PeerDirectory, "reachable">;
  readonly instanceId: string;
}

/**
 * Stop a run whose record cannot be read: asks every known peer, and the peer that holds the run stops it. Rejects with
 * StoreUnreadable if no peer holds the run.
 */
export async function stopThroughPeers(
  { peerDirectory, instanceId }: StopThroughPeersDeps,
  requester: Requester,
  runId: string,
  body: ParsedRequestOf<"kill">["body"],
  readError: unknown,
): Promise<ResponseOf<"kill">> {
  const asked = peerDirectory.reachable().map(async (gateway) => {
    const peer = new Peer(instanceId, gateway, (why, how) => new PeerUnreachable(runId, gateway, why, how));
    return stopAtPeer(peer, requester, runId, body);
  });
  return Promise.any(asked).catch(() => {
    throw new StoreUnreadable(runId, readError);
  });
}

async function stopAtPeer(
  peer: Peer,
  requester: Requester,
  runId: string,
  body: ParsedRequestOf<"kill">["body"],
): Promise<ResponseOf<"kill">> {
  const text = JSON.stringify(body);
  const headers = {
    ...onBehalfOfHeader(requester),
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(text)),
  };
  const request = peer.request("POST", `/v1/runs/${runId}/kill`, headers, () => false);
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request.once("response", resolve);
    request.on("error", reject);
    request.end(text);
  });
  const said = await json(answer);
  if (answer.statusCode !== 200) throw peer.unreachableError(`it answered ${answer.statusCode ?? 0}`);
  return said as ResponseOf<"kill">;
}
