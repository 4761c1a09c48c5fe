import { BadInput, NotFound } from "../../errors.js";
import type { AnswerOf } from "../../gateway/contract/contract.js";
import type { GatewayClient } from "../../gateway/client.js";
import { say } from "../complain.js";
import { needGateway } from "../gateway/connect.js";
import { openLook } from "../gateway/look.js";
import { toJson } from "../json.js";
import { print, printOnce } from "../runs/print.js";
import { sessionToken } from "../session-token.js";
import { messageText } from "./history.js";
import { named, type TalkFlags } from "./talk.js";

interface ReadFlags extends TalkFlags {
  readonly limit: number;
}

export interface InboxFlags extends ReadFlags {
  readonly take?: true;
  /** Messages that were read before. */
  readonly acknowledge?: readonly string[];
}

type Inbox = AnswerOf<"sessionInbox">;

export async function showInbox(
  wanted: string | undefined,
  { take, acknowledge = [], ...flags }: InboxFlags,
): Promise<number> {
  mustBeOneWay(take, acknowledge);
  if (wanted === undefined && sessionToken() === null)
    throw new BadInput("session", "say whose; only with a session's HOLDFAST_TOKEN it may be left out");
  if (acknowledge.length > 0) return acknowledgeThose(wanted, acknowledge, flags);
  if (take === true) return takeThem(wanted, flags);
  await using look = await openLook();
  const { json, ...query } = flags;
  const inbox = await look.client.sessionInbox({ params: await whose(wanted, look.client), query });
  print(inboxText(inbox, json));
  if (json !== true) tellRest(inbox);
  return 0;
}

/** Shown first: what could not be written is acknowledged by nobody. */
async function takeThem(wanted: string | undefined, { json, ...query }: ReadFlags): Promise<number> {
  const { client } = await needGateway();
  const params = await whose(wanted, client);
  const inbox = await client.sessionInbox({ params, query });
  printOnce(inboxText(inbox, json), "nothing was acknowledged, and all of it goes on waiting");
  const ids = inbox.messages.map(({ id }) => id);
  const { acknowledged } =
    ids.length === 0 ? { acknowledged: [] } : await client.acknowledgeInbox({ params, body: { ids } });
  const others = ids.length - acknowledged.length;
  if (others > 0) say(`${others} of them had been taken by another meanwhile`, "dim");
  if (json !== true) tellRest(inbox);
  return 0;
}

async function acknowledgeThose(
  wanted: string | undefined,
  ids: readonly string[],
  { json }: TalkFlags,
): Promise<number> {
  const none = ids.find((id) => !/^msg_[0-9a-z]{12}$/.test(id));
  if (none !== undefined) throw new NotFound(`message ${none.slice(0, 200)}; nothing was acknowledged`);
  const { client } = await needGateway();
  const answer = await client.acknowledgeInbox({
    params: await whose(wanted, client),
    body: { ids: [...ids] },
  });
  const { acknowledged } = answer;
  print(json === true ? toJson(answer) : acknowledged.map((id) => `${id} is acknowledged\n`).join(""));
  for (const id of ids)
    if (!acknowledged.includes(id)) say(`${id} does not wait here, or not any more`, "dim");
  return 0;
}

function mustBeOneWay(take: true | undefined, acknowledge: readonly string[]): void {
  if (take === true && acknowledge.length > 0)
    throw new BadInput(
      "take",
      "it is about what was not read yet; leave out --acknowledge. Nothing was done",
    );
}

function inboxText({ session, messages, more }: Inbox, json: true | undefined): string {
  return json === true
    ? toJson({ session, messages, more })
    : messages.map((message) => messageText(message, ` (${message.id})`)).join("\n");
}

function tellRest({ messages, more }: Inbox): void {
  if (messages.length === 0) say("nothing waits for it", "dim");
  else if (more) say("there is more", "dim");
}

/** Its own, where a session asks for nobody's. */
async function whose(
  wanted: string | undefined,
  client: Pick<GatewayClient, "listSessions">,
): Promise<{ readonly id: string }> {
  if (wanted !== undefined) return named(wanted);
  const { sessions } = await client.listSessions({ query: { visibility: "self", limit: 1 } });
  return named(sessions[0]?.id ?? "");
}
