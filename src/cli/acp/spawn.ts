import { resolve } from "node:path";
import type { RequestOf, ResponseOf } from "../../api/contract.js";
import { deferred } from "../../async/deferred.js";
import { BadInput } from "../../errors.js";
import { environmentOutsideRuns } from "../../gateway/start.js";
import { newSessionId, newTurnId } from "../../model/ids.js";
import { connectOrStart, type GatewayConnection } from "../client/connect.js";
import { retryUntilAnswered } from "../client/reconnect.js";
import { qualifiedSessionName } from "../client/resolve-acp-session.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { noticeIfWaitingForApproval, toSpawnFailed } from "../run/exec.js";
import { TurnInterrupts } from "../run/interrupts.js";
import { type AnswerDisplay, printBackgroundTurn, readPrompt, showTurn } from "./prompt.js";
import type { ShownTurn } from "./view/texts.js";

export interface SpawnSessionRequest extends AnswerDisplay {
  /** An agent of the catalogue, or any command that speaks ACP. */
  readonly agent: { readonly name: string } | { readonly command: string };
  readonly name: string | null;
  readonly mode: "run" | "session";
  readonly cwd: string;
  /** Starts the agent with the gateway's environment instead of the environment of this command. */
  readonly clearEnv: boolean;
  readonly background: boolean;
  readonly permissions: "approve-all" | "approve-reads" | "deny-all" | null;
  readonly reap: "asked" | "cancel" | "always";
  /** Null: the default of the catalogue. */
  readonly client: RequestOf<"acpSpawn">["body"]["client"] | null;
  readonly prompt: string | null;
  readonly timeoutMs: number | null;
  readonly notification: Pick<RequestOf<"acpSpawn">["body"], "notify" | "origin">;
}

/** Opens a session and starts its agent; with a prompt, shows its answer. */
export async function spawnSession(request: SpawnSessionRequest): Promise<number> {
  const { background, json, mode } = request;
  if (mode === "run" && request.prompt === null)
    throw new BadInput("mode", "a run is one prompt and its answer: say the prompt. Nothing was started");
  const prompt = request.prompt === null ? null : await readPrompt(request.prompt);
  const body = spawnBody(request, prompt);
  const found = await connectOrStart();
  using interrupts = new TurnInterrupts(() => undefined);
  const known = request.name === null ? null : await lastUpdateSeq(found, body.key);
  const started = await startSession(found, body, known === null, interrupts);
  if (started === null) return interrupts.exitCode ?? 0;

  const { connection, answer } = started;
  const { session, turn } = answer;
  if (known !== null && !json)
    notice(`${session.key} was open already: it goes on in its directory, with the rules that it has`, "dim");
  if (turn === null) {
    print(json ? toJson(answer) : `${session.sessionId}\n`);
    if (!json) notice(`say something to it: holdfast acp prompt ${session.key} "…"`, "dim");
    return 0;
  }
  if (background)
    return await printBackgroundTurn(connection, session, turn, request.notification, json ? answer : null);
  if (!json && mode === "session") notice(`session ${session.key} (${session.sessionId})`, "dim");
  const record = (ended: ShownTurn): object => ({ ...answer, turn: ended });
  return await showTurn(connection, session, turn, known ?? 0, request, interrupts, record);
}

type SpawnAnswer = ResponseOf<"acpSpawn">;

/** Null: the user interrupted it. */
async function startSession(
  found: GatewayConnection,
  body: SpawnBody,
  isNew: boolean,
  interrupts: TurnInterrupts,
): Promise<{ readonly connection: GatewayConnection; readonly answer: SpawnAnswer } | null> {
  using _said = noticeIfWaitingForApproval((message) => notice(message, "dim"));
  const closed = deferred<"closed">();
  interrupts.onFirst(() => {
    notice("the agent is not started after all; Ctrl-C again leaves that to you", "dim");
    if (!isNew) return;
    // If there is no session to close yet, there is one when the spawn is answered.
    closeStarting(found, body.key).then(
      (done) => (done ? closed.resolve("closed") : undefined),
      () => undefined,
    );
  });
  const spawning = retryUntilAnswered(found, (client) => client.acpSpawn({ body })).catch(
    (error: unknown) => {
      if (isNew && interrupts.exitCode !== null) return "closed" as const;
      throw toSpawnFailed(error);
    },
  );
  const left = interrupts.leaveRequested.then(() => "left" as const);
  const started = await Promise.race([spawning, closed.promise, left]);
  if (typeof started === "object" && interrupts.exitCode === null) return started;
  if (typeof started === "object") await undoSpawn(started.connection, started.answer);
  else if (started === "closed") notice(`${body.key} is closed`, "dim");
  else {
    spawning.catch(() => undefined);
    notice(`left; the session may come up all the same: holdfast acp close ${body.key}`, "yellow");
  }
  return null;
}

/** False: there is no such session. */
async function closeStarting({ client }: GatewayConnection, name: string): Promise<boolean> {
  const { sessions } = await client.acpList({ query: { limit: 1_000 } });
  const session = sessions.find(({ key }) => key === name);
  if (session === undefined) return false;
  await client.acpClose({ params: { id: session.sessionId } });
  return true;
}

/** The last update of the open session with that name: later updates are new. Null: there is no such session. */
async function lastUpdateSeq({ client }: GatewayConnection, name: string): Promise<number | null> {
  const { sessions } = await client.acpList({ query: { limit: 1_000 } });
  return sessions.find(({ key }) => key === name)?.seq ?? null;
}

/** Closes a session that this command opened before Ctrl-C; a session that was open before stays. */
async function undoSpawn(
  { client }: GatewayConnection,
  { session, created, turn }: SpawnAnswer,
): Promise<void> {
  const params = { id: session.sessionId };
  if (created) await client.acpClose({ params });
  else if (turn !== null) await client.acpCancel({ params, body: { turnId: turn.turnId } });
  notice(`${session.key} is ${created ? "closed" : "as it was"}`, "dim");
}

/** Idempotent: the request has the same name and turn id every time. */
type SpawnBody = RequestOf<"acpSpawn">["body"] & { readonly key: string };

function spawnBody(request: SpawnSessionRequest, prompt: string | null): SpawnBody {
  const { agent, mode, permissions, reap, client, timeoutMs, background, notification } = request;
  return {
    // The command goes to a shell verbatim.
    ...("name" in agent ? { agent: agent.name } : { argv: ["/bin/sh", "-c", agent.command] }),
    key: qualifiedSessionName(request.name ?? generateSessionName("name" in agent ? agent.name : "acp")),
    cwd: resolve(request.cwd),
    ...(request.clearEnv ? {} : { environment: environmentOutsideRuns() }),
    mode,
    ...(permissions === null ? {} : { permissions }),
    reap,
    ...(client === null ? {} : { client }),
    ...(prompt === null ? {} : { prompt, turnId: newTurnId() }),
    ...(timeoutMs === null ? {} : { timeoutMs }),
    wait: false,
    background: background && prompt !== null,
    ...notification,
  };
}

const NAME_SUFFIX_CHARS = 6;

/** Chosen here, so that the session can be named before a gateway has answered. */
function generateSessionName(agent: string): string {
  return `${agent}-${newSessionId().slice(-NAME_SUFFIX_CHARS)}`;
}
