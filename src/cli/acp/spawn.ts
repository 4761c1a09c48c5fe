import { resolve } from "node:path";
import { newTurnId } from "../../acp/ids.js";
import { BadInput } from "../../errors.js";
import type { AnswerOf, AskedOf } from "../../gateway/contract/contract.js";
import { unmarkedEnvironment } from "../../gateway/start.js";
import { newSessionId } from "../../sessions/ids.js";
import { deferred } from "../../supervisor/deferred.js";
import { say } from "../complain.js";
import { needGateway, type Connection } from "../gateway/connect.js";
import { sayIfLong } from "../gateway/say-if-long.js";
import { asSpawnFailed } from "../gateway/spawn-failed.js";
import { toJson } from "../json.js";
import { print } from "../runs/print.js";
import { ownName } from "./own-name.js";
import { Interrupts } from "./interrupts.js";
import type { Turn } from "./ending.js";
import { untilAnswered } from "./until-answered.js";
import { handedOver, promptOf, show, type Showing } from "./prompt.js";

export interface SpawnRequest extends Showing {
  /** Of the catalogue, or any command that speaks ACP. */
  readonly agent: { readonly name: string } | { readonly command: string };
  readonly name: string | null;
  readonly mode: "run" | "session";
  readonly cwd: string;
  /** Start the agent with the gateway's environment instead of the environment of this command. */
  readonly clearEnv: boolean;
  readonly background: boolean;
  readonly permissions: "approve-all" | "approve-reads" | "deny-all" | null;
  readonly reap: "asked" | "cancel" | "always";
  /** Null: as the catalogue says. */
  readonly client: AskedOf<"acpSpawn">["body"]["client"] | null;
  readonly prompt: string | null;
  readonly timeoutMs: number | null;
  readonly tell: Pick<AskedOf<"acpSpawn">["body"], "notify" | "origin">;
}

/** Open a session and start its agent; with a prompt, show what it answers. */
export async function spawnSession(request: SpawnRequest): Promise<number> {
  const { background, json, mode } = request;
  if (mode === "run" && request.prompt === null)
    throw new BadInput("mode", "a run is one prompt and its answer: say the prompt. Nothing was started");
  const prompt = request.prompt === null ? null : await promptOf(request.prompt);
  const body = bodyOf(request, prompt);
  const found = await needGateway();
  using interrupts = new Interrupts(() => undefined);
  const known = request.name === null ? null : await lastUpdate(found, body.key);
  const started = await start(found, body, known === null, interrupts);
  if (started === null) return interrupts.code ?? 0;

  const { connection, answer } = started;
  const { session, turn } = answer;
  if (known !== null && !json)
    say(`${session.key} was open already: it goes on in its directory, with the rules that it has`, "dim");
  if (turn === null) {
    print(json ? toJson(answer) : `${session.sessionId}\n`);
    if (!json) say(`say something to it: holdfast acp prompt ${session.key} "…"`, "dim");
    return 0;
  }
  if (background) return await handedOver(connection, session, turn, request.tell, json ? answer : null);
  if (!json && mode === "session") say(`session ${session.key} (${session.sessionId})`, "dim");
  const record = (ended: Turn): object => ({ ...answer, turn: ended });
  return await show(connection, session, turn, known ?? 0, request, interrupts, record);
}

type Spawned = AnswerOf<"acpSpawn">;

/** Null: the user did not want it any more. */
async function start(
  found: Connection,
  body: SpawnBody,
  isNew: boolean,
  interrupts: Interrupts,
): Promise<{ readonly connection: Connection; readonly answer: Spawned } | null> {
  using _said = sayIfLong((message) => say(message, "dim"));
  const closed = deferred<"closed">();
  interrupts.from(() => {
    say("the agent is not started after all; Ctrl-C again leaves that to you", "dim");
    if (!isNew) return;
    // Where there is nothing to be closed yet, there is when the spawn is answered.
    closeStarting(found, body.key).then(
      (done) => (done ? closed.resolve("closed") : undefined),
      () => undefined,
    );
  });
  const spawning = untilAnswered(found, (client) => client.acpSpawn({ body })).catch((error: unknown) => {
    if (isNew && interrupts.code !== null) return "closed" as const;
    throw asSpawnFailed(error);
  });
  const left = interrupts.insisted.then(() => "left" as const);
  const started = await Promise.race([spawning, closed.promise, left]);
  if (typeof started === "object" && interrupts.code === null) return started;
  if (typeof started === "object") await undo(started.connection, started.answer);
  else if (started === "closed") say(`${body.key} is closed`, "dim");
  else {
    spawning.catch(() => undefined);
    say(`left; the session may come up all the same: holdfast acp close ${body.key}`, "yellow");
  }
  return null;
}

/** False: there is none. */
async function closeStarting({ client }: Connection, name: string): Promise<boolean> {
  const { sessions } = await client.acpList({ query: { limit: 1_000 } });
  const session = sessions.find(({ key }) => key === name);
  if (session === undefined) return false;
  await client.acpClose({ params: { id: session.sessionId } });
  return true;
}

/** Of the open session of that name: what comes after it is new. Null: there is none. */
async function lastUpdate({ client }: Connection, name: string): Promise<number | null> {
  const { sessions } = await client.acpList({ query: { limit: 1_000 } });
  return sessions.find(({ key }) => key === name)?.seq ?? null;
}

/** What was begun before Ctrl-C came; what had been there before stays. */
async function undo({ client }: Connection, { session, created, turn }: Spawned): Promise<void> {
  const params = { id: session.sessionId };
  if (created) await client.acpClose({ params });
  else if (turn !== null) await client.acpCancel({ params, body: { turnId: turn.turnId } });
  say(`${session.key} is ${created ? "closed" : "as it was"}`, "dim");
}

/** Asked again with the same name and turn, nothing is done twice. */
type SpawnBody = AskedOf<"acpSpawn">["body"] & { readonly key: string };

function bodyOf(request: SpawnRequest, prompt: string | null): SpawnBody {
  const { agent, mode, permissions, reap, client, timeoutMs, background, tell } = request;
  return {
    // Verbatim to a shell, as it would be typed.
    ...("name" in agent ? { agent: agent.name } : { argv: ["/bin/sh", "-c", agent.command] }),
    key: ownName(request.name ?? newName("name" in agent ? agent.name : "acp")),
    cwd: resolve(request.cwd),
    ...(request.clearEnv ? {} : { environment: unmarkedEnvironment() }),
    mode,
    ...(permissions === null ? {} : { permissions }),
    reap,
    ...(client === null ? {} : { client }),
    ...(prompt === null ? {} : { prompt, turnId: newTurnId() }),
    ...(timeoutMs === null ? {} : { timeoutMs }),
    wait: false,
    background: background && prompt !== null,
    ...tell,
  };
}

const CHARACTERS = 6;

/** Chosen here: it can be named even when nobody has answered yet. */
function newName(agent: string): string {
  return `${agent}-${newSessionId().slice(-CHARACTERS)}`;
}
