import { resolve } from "node:path";
import type { RequestOf, ResponseOf } from "../../api/contract.js";
import { deferred } from "../../async/deferred.js";
import { BadInput, HoldfastError } from "../../errors.js";
import { environmentOutsideRuns } from "../../gateway/start-in-background.js";
import type { CLIENT_FILE_ACCESS } from "../../model/enums.js";
import { newSessionId, newTurnId } from "../../model/ids.js";
import { consentToFetch } from "../agents/consent-to-fetch.js";
import { connectOrStart, type GatewayConnection } from "../client/connect.js";
import { notifyBody, type NotifyFlags } from "../client/notify-options.js";
import { retryUntilAnswered } from "../client/reconnect.js";
import {
  type AcpSessionSummary,
  qualifiedSessionName,
  resolveAcpSession,
} from "../client/resolve-acp-session.js";
import type { GivenExecRule } from "../options/exec-rule-options.js";
import { type DetachFlags, isDetached } from "../options/parsers.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { noticeIfWaitingForApproval, toSpawnFailed } from "../run/detached.js";
import { TurnInterrupts } from "./turn-interrupts.js";
import { type ContentFlags, readPromptContent } from "./prompt-content.js";
import { parseMcpServer, readMcpConfig } from "./mcp-options.js";
import {
  type DisplayFlags,
  printBackgroundTurn,
  readPrompt,
  rejectChannellessOptions,
  rejectNotifyOptions,
  showTurn,
  turnLimits,
} from "./prompt.js";
import { type RuleFlags, rulesFromFlags } from "./permissions/rule-pattern.js";
import { type SettingFlags, settingsOf } from "./set-and-show-settings.js";
import type { ShownTurn } from "./view/notice-texts.js";

/** The values of `--mode`. */
export interface SpawnModes {
  readonly session: "run" | "session";
  /** The agent's own mode. */
  readonly agent?: string;
}

export interface SpawnFlags
  extends DisplayFlags, NotifyFlags, DetachFlags, RuleFlags, SettingFlags, ContentFlags {
  readonly name?: string;
  readonly agentCommand?: string;
  readonly mode: SpawnModes;
  readonly resume?: string;
  readonly fork?: true;
  readonly addDir?: readonly string[];
  readonly cwd: string;
  readonly clearEnv?: true;
  readonly approveAll?: true;
  readonly approveReads?: true;
  readonly denyAll?: true;
  readonly reapTools?: true;
  readonly reapAlways?: true;
  readonly clientFiles?: (typeof CLIENT_FILE_ACCESS)[number];
  readonly clientRoot?: readonly string[];
  readonly clientTerminals?: boolean;
  readonly mcp?: readonly string[];
  readonly mcpConfig?: readonly string[];
  readonly execRules?: GivenExecRule[];
  /** Fetch an agent that is not installed from npm, without a question. */
  readonly yes?: true;
}

/** Opens a session and starts its agent; with a prompt, shows its answer. Without an agent, `first` is the prompt. */
export async function spawnSession(
  first: string | undefined,
  second: string | undefined,
  flags: SpawnFlags,
): Promise<number> {
  const { agentCommand, json = false } = flags;
  const { session: mode } = flags.mode;
  const agent = agentCommand === undefined ? (first ?? "") : null;
  checkAgent(agent, second, flags);
  if (!isDetached(flags)) rejectNotifyOptions(flags);
  rejectChannellessOptions(flags);
  const words = agent === null ? first : second;
  const hasPrompt = words !== undefined || flags.promptFile !== undefined;
  if (mode === "run" && !hasPrompt)
    throw new BadInput("mode", "--mode run needs a prompt; nothing was started");
  const prompt = hasPrompt ? await readPrompt(words, flags) : null;
  const body = { ...spawnBody(agent, prompt, flags), ...contentOf(words, hasPrompt, flags) };
  const found = await connectOrStart();
  const fetch = agent !== null && (await consentToFetch(found.client, agent, flags.yes === true));
  using interrupts = new TurnInterrupts(() => undefined);
  const known = flags.name === undefined ? null : await lastUpdateSeq(found, body.key);
  const started = await startSession(found, fetch ? { ...body, fetch } : body, known === null, interrupts);
  if (started === null) return interrupts.exitCode ?? 0;

  const { connection, answer } = started;
  const { session, turn } = answer;
  if (known !== null && !json)
    notice(`${session.key} is already open: it keeps its directory and its rules`, "dim");
  if (turn === null) {
    print(json ? toJson(answer) : `${session.sessionId}\n`);
    if (!json) notice(`send it a prompt: holdfast acp prompt ${session.key} "…"`, "dim");
    return 0;
  }
  if (isDetached(flags))
    return await printBackgroundTurn(connection, session, turn, flags, json ? answer : null);
  if (!json && mode === "session") notice(`session ${session.key} (${session.sessionId})`, "dim");
  const record = (ended: ShownTurn): object => ({ ...answer, turn: ended });
  return await showTurn({
    connection,
    session,
    turn,
    after: known ?? 0,
    display: flags,
    interrupts,
    record,
  });
}

function contentOf(words: string | undefined, hasPrompt: boolean, flags: SpawnFlags) {
  const content = readPromptContent(words ?? "", flags);
  if (content.length > 0 && !hasPrompt)
    throw new BadInput("prompt", "files, images and links need a prompt; nothing was started");
  return content.length === 0 ? {} : { content };
}

const MAX_AGENT_NAME_CHARS = 200;

function checkAgent(agent: string | null, second: string | undefined, { agentCommand }: SpawnFlags): void {
  if (agent === null && second !== undefined)
    throw new BadInput(
      "agent",
      "--agent-command replaces the agent: give only one of them. Nothing was started",
    );
  if (agent === "" || (agent?.length ?? 0) > MAX_AGENT_NAME_CHARS)
    throw new BadInput(
      "agent",
      "the agent is missing: give a name of the catalogue, or --agent-command. Nothing was started",
    );
  if (agentCommand?.trim() === "")
    throw new BadInput("agent-command", "the command is empty; nothing was started");
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
    notice("cancelling the start of the agent; Ctrl-C again leaves at once", "dim");
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
    notice(`left; the session may still start; to close it: holdfast acp close ${body.key}`, "yellow");
  }
  return null;
}

/** False: there is no such session. */
async function closeStarting({ client }: GatewayConnection, name: string): Promise<boolean> {
  const session = await findOpenSession(client, name);
  if (session === null) return false;
  await client.acpClose({ params: { id: session.sessionId } });
  return true;
}

/** The last update of the open session with that name: later updates are new. Null: there is no such session. */
async function lastUpdateSeq({ client }: GatewayConnection, name: string): Promise<number | null> {
  return (await findOpenSession(client, name))?.seq ?? null;
}

/** The open session with exactly this name. Null: there is none. */
export async function findOpenSession(
  client: GatewayConnection["client"],
  name: string,
): Promise<AcpSessionSummary | null> {
  const found = await resolveAcpSession(client, name).catch((error: unknown) => {
    // The name may be the beginning of other names.
    if (error instanceof HoldfastError && NO_SUCH_SESSION.includes(error.code)) return null;
    throw error;
  });
  return found?.key === name && found.state !== "closed" ? found : null;
}

const NO_SUCH_SESSION: readonly string[] = ["NOT_FOUND", "BAD_INPUT"];

/** Closes a session that this command opened before Ctrl-C; a session that was open before stays. */
async function undoSpawn(
  { client }: GatewayConnection,
  { session, created, turn }: SpawnAnswer,
): Promise<void> {
  const params = { id: session.sessionId };
  if (created) await client.acpClose({ params });
  else if (turn !== null) await client.acpCancel({ params, body: { turnId: turn.turnId } });
  notice(`${session.key} is ${created ? "closed" : "unchanged"}`, "dim");
}

/** Idempotent: the request has the same name and turn id every time. */
type SpawnBody = RequestOf<"acpSpawn">["body"] & { readonly key: string };

function spawnBody(agent: string | null, prompt: string | null, flags: SpawnFlags): SpawnBody {
  const { agentCommand = "", name, mode, clearEnv, reapAlways, reapTools } = flags;
  const rules = rulesFromFlags(flags);
  const permissions = permissionMode(flags) ?? (rules.length === 0 ? null : "approve-reads");
  const settings = settingsOf(flags, mode.agent);
  const { resume, fork, addDir } = flags;
  if (fork === true && resume === undefined)
    throw new BadInput("fork", "--fork needs --resume with the session to copy; nothing was started");
  const { execRules = [] } = flags;
  return {
    // The command goes to a shell verbatim.
    ...(agent === null ? { argv: ["/bin/sh", "-c", agentCommand] } : { agent }),
    key: qualifiedSessionName(name ?? generateSessionName(agent ?? "acp")),
    cwd: resolve(flags.cwd),
    ...(clearEnv === true ? {} : { environment: environmentOutsideRuns() }),
    mode: mode.session,
    ...(settings === null ? {} : { settings }),
    ...(resume === undefined ? {} : { resume: { sessionId: resume, fork: fork === true } }),
    ...(addDir === undefined ? {} : { directories: [...addDir] }),
    ...(permissions === null ? {} : { permissions }),
    ...(rules.length === 0 ? {} : { rules }),
    ...(execRules.length === 0 ? {} : { execRules }),
    reap: reapAlways === true ? "always" : reapTools === true ? "cancel" : "asked",
    ...clientOptions(flags),
    ...mcpOptions(flags),
    ...(prompt === null ? {} : { prompt, turnId: newTurnId() }),
    ...turnLimits(flags),
    wait: false,
    background: isDetached(flags) && prompt !== null,
    ...notifyBody(flags),
  };
}

/** Without options, the default of the catalogue applies. */
function clientOptions({ clientFiles: files, clientRoot: roots, clientTerminals: terminals }: SpawnFlags) {
  if (files === undefined && roots === undefined && terminals === undefined) return {};
  const client = {
    ...(files === undefined ? {} : { files }),
    ...(roots === undefined ? {} : { roots: [...roots] }),
    ...(terminals === undefined ? {} : { terminals }),
  };
  return { client };
}

/** Servers given one by one replace those of a file with the same name. */
function mcpOptions({ mcp = [], mcpConfig = [] }: SpawnFlags) {
  const given = [
    ...mcpConfig.flatMap((path) => readMcpConfig(path, process.env)),
    ...mcp.map(parseMcpServer),
  ];
  const servers = new Map(given.map((server) => [server.name, server]));
  return servers.size === 0 ? {} : { mcpServers: [...servers.values()] };
}

function permissionMode({ approveAll, approveReads, denyAll }: SpawnFlags) {
  if (approveAll === true) return "approve-all";
  if (approveReads === true) return "approve-reads";
  return denyAll === true ? "deny-all" : null;
}

const NAME_SUFFIX_CHARS = 6;

/** Chosen here, so that the session can be named before a gateway has answered. */
function generateSessionName(agent: string): string {
  return `${agent}-${newSessionId().slice(-NAME_SUFFIX_CHARS)}`;
}
