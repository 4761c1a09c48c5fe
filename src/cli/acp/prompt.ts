import { text } from "node:stream/consumers";
import { isatty } from "node:tty";
import { newTurnId } from "../../acp/ids.js";
import { BadInput } from "../../errors.js";
import type { AskedOf } from "../../gateway/contract/contract.js";
import { say } from "../complain.js";
import { needGateway, type Connection } from "../gateway/connect.js";
import { sessionToken } from "../session-token.js";
import { toJson } from "../json.js";
import { print } from "../runs/print.js";
import { sayIfUnheard } from "../tasks/telling.js";
import { turnCode, type Turn } from "./ending.js";
import type { Format } from "./formats.js";
import { followedCode, followTurn } from "./follow-turn.js";
import { Interrupts } from "./interrupts.js";
import { pickSession, type Session } from "./pick-session.js";
import { untilAnswered } from "./until-answered.js";
import { viewOf } from "./view.js";

/** How the answer is shown. */
export interface Showing {
  readonly format: Format;
  readonly thoughts: boolean;
  readonly json: boolean;
}

export interface PromptRequest extends Showing {
  readonly session: string;
  readonly prompt: string;
  readonly timeoutMs: number | null;
  readonly wait: boolean;
  readonly tell: Pick<AskedOf<"acpPrompt">["body"], "notify" | "origin">;
}

/** Ask an agent, and show what it says. */
export async function promptSession(request: PromptRequest): Promise<number> {
  const { prompt, timeoutMs, wait, json } = request;
  const words = await promptOf(prompt);
  const found = await untilAnswered(await needGateway(), (client) => pickSession(client, request.session));
  const session = found.answer;
  using interrupts = new Interrupts(() => undefined);
  const params = { id: session.sessionId };
  const body = {
    text: words,
    turnId: newTurnId(),
    wait: false,
    background: !wait,
    ...request.tell,
    ...(timeoutMs === null ? {} : { timeoutMs }),
  };
  const { answer, connection } = await untilAnswered(found.connection, (client) =>
    client.acpPrompt({ params, body }),
  );
  const { turn } = answer;
  if (!wait) return await handedOver(connection, session, turn, request.tell, json ? { turn } : null);
  if (!json) await sayQueue(connection, session, turn);
  return await show(connection, session, turn, session.seq, request, interrupts, (ended) => ({
    turn: ended,
  }));
}

/** Until the turn has ended, or the user leaves. */
export async function show(
  connection: Connection,
  session: Session,
  turn: Turn,
  after: number,
  { format, thoughts, json }: Showing,
  interrupts: Interrupts,
  record: (turn: Turn) => object,
): Promise<number> {
  const view = viewOf(json ? "record" : format, { thoughts, watching: false });
  const asks = format !== "json" && !json && mayAnswer();
  const ended = await followTurn({ connection, session, turn, after, view, asks, interrupts });
  view.settle();
  if (ended === null) {
    say(`left; the gateway goes on cancelling the turn: holdfast acp show ${session.key}`, "yellow");
    return interrupts.code ?? turnCode(turn);
  }
  view.ended(ended);
  if (ended.droppedUpdates > 0)
    say(`${ended.droppedUpdates} updates of the turn were too many to be kept, and are not shown`, "yellow");
  if (json) print(toJson(record(ended)));
  return followedCode(ended, interrupts);
}

/** A person who is no session is at the terminal. */
export function mayAnswer(): boolean {
  return isatty(0) && isatty(2) && sessionToken() === null;
}

/** Nobody waits for the answer here. */
export async function handedOver(
  { client }: Connection,
  session: Session,
  turn: Turn,
  tell: PromptRequest["tell"],
  record: object | null,
): Promise<number> {
  if (record !== null) print(toJson(record));
  else {
    print(`${turn.turnId}\n`);
    say(
      `see it with \`holdfast acp watch ${session.key}\`; \`holdfast tasks wait ${turn.turnId}\` waits for its answer`,
      "dim",
    );
  }
  await sayIfUnheard(client, turn.turnId, tell);
  return 0;
}

/** As it is said, or read from stdin. */
export async function promptOf(said: string): Promise<string> {
  const prompt = said === "-" ? await text(process.stdin) : said;
  if (prompt.trim() === "") throw new BadInput("prompt", "the prompt is empty; nothing was sent");
  return prompt;
}

async function sayQueue(
  { client }: Connection,
  { sessionId }: Session,
  { turnId, ordinal }: Turn,
): Promise<void> {
  // Only news: whoever is interrupted in telling it goes on.
  const shown = await client.acpShow({ params: { id: sessionId } }).catch(() => null);
  const turns = shown?.turns ?? [];
  const before = turns.filter((each) => each.state !== "ended" && each.ordinal < ordinal).length;
  if (before > 0 && turns.some((each) => each.turnId === turnId && each.state === "queued"))
    say(`queued, with ${before === 1 ? "one prompt" : `${before} prompts`} before it`, "dim");
}
