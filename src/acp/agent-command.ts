import type { AgentEntry } from "../config/agents.js";
import { BadInput } from "../errors.js";
import type { AcpSession } from "../model/acp/session-and-turn.js";
import { cleanEnvironment } from "../sessions/exec-environment.js";
import type { Sessions } from "../sessions/sessions.js";
import { redactArguments } from "../text/redact.js";

/** How an agent is started. It may hold secrets and is not stored. */
export interface AgentCommand {
  readonly argv: readonly string[];
  /** The path that the exec rules allowed, executed in place of the first word. Default: the first word. */
  readonly executable?: string;
  readonly env: Readonly<Record<string, string>>;
  /** Environment from the operator, or allowed when the agent was started; the agent itself has set none of it. */
  readonly inherit: Readonly<Record<string, string>>;
  /** Variables that the agent may set for the commands in its terminals. */
  readonly passEnv: readonly string[];
}

export function executedArgv({
  argv,
  executable,
}: Pick<AgentCommand, "argv" | "executable">): readonly string[] {
  return executable === undefined ? argv : [executable, ...argv.slice(1)];
}

/** The command line if it may be stored; null: another process cannot start the agent again. */
export function storableArgv(argv: readonly string[], byOperator: boolean): readonly string[] | null {
  // The gateway's PATH may lead to another program than the one that the session was allowed to start.
  if (!byOperator && argv[0]?.includes("/") !== true) return null;
  return JSON.stringify(redactArguments(argv)) === JSON.stringify(argv) ? argv : null;
}

/** The command that fetches the agent's npm package, in its pinned version, and runs it. Null: it has none. */
export function fetchingArgv({ argv: words, npm }: NonNullable<AgentEntry["acp"]>): readonly string[] | null {
  return npm === undefined
    ? null
    : ["npx", "--yes", `--package=${npm.package}@${npm.version}`, "--", ...words];
}

export interface RequestedAgentCommand {
  /** An agent of the catalogue; otherwise `argv` is a command that speaks ACP. */
  readonly agent?: string | undefined;
  readonly argv?: readonly string[] | undefined;
  /** The caller's environment. Not stored: after a restart of the gateway, an agent gets the gateway's. */
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /** The absolute path that the exec rules allowed. Default: the first word of the command line. */
  readonly executable?: string | undefined;
  /** Fetch the agent's npm package, in its pinned version, and run it. */
  readonly fetch?: boolean | undefined;
}

/** The commands of agents: as requested, and for a restart as far as they are known. */
export class AgentCommands {
  readonly #agents: ReadonlyMap<string, AgentEntry>;
  readonly #sessions: Pick<Sessions, "issueRunToken" | "bindToken">;
  readonly #passEnv: readonly string[];
  /** Commands that callers gave this process, with their environment; by session. */
  readonly #fromCaller = new Map<string, AgentCommand>();

  /** `passEnv`: variables that the config passes to runs of sessions. */
  constructor(
    agents: ReadonlyMap<string, AgentEntry>,
    sessions: Pick<Sessions, "issueRunToken" | "bindToken">,
    passEnv: readonly string[],
  ) {
    this.#agents = agents;
    this.#sessions = sessions;
    this.#passEnv = passEnv;
  }

  /** Throws if there is no such agent. */
  resolve({ agent, argv, environment, executable, fetch }: RequestedAgentCommand): AgentCommand {
    if ((agent === undefined) === (argv === undefined))
      throw new BadInput("agent", "give either the name of an agent or a command; nothing was started");
    const found = this.#lookup(agent ?? null, argv ?? null);
    const known = found !== null && fetch === true ? { ...found, argv: this.#fetchingArgv(agent) } : found;
    if (known !== null)
      return {
        ...known,
        ...(executable === undefined ? {} : { executable }),
        inherit: environment ?? known.inherit,
      };
    throw new BadInput(
      "agent",
      `there is no ACP agent ${JSON.stringify(agent)}; \`holdfast agents list\` shows the agents. Nothing was started`,
    );
  }

  /** The command with a token of the session, for requests of the agent to the gateway. Null: no longer known. */
  async forRestart({ sessionId, agent, argv }: AcpSession): Promise<AgentCommand | null> {
    const known = this.#fromCaller.get(sessionId) ?? this.#lookup(agent, argv);
    if (known === null) return null;
    const token = await this.#sessions.issueRunToken(sessionId);
    return token === null ? known : { ...known, env: { ...known.env, HOLDFAST_TOKEN: token } };
  }

  /** Binds the token of the command to this run; null: no run was started. Never rejects: a token without a run expires. */
  async bindToken(command: AgentCommand | null, runId: string | null): Promise<void> {
    const token = command?.env?.["HOLDFAST_TOKEN"];
    if (token !== undefined) await this.#sessions.bindToken(token, runId).catch(() => undefined);
  }

  /** The first command of a session stays. */
  remember(sessionId: string, command: AgentCommand): void {
    if (!this.#fromCaller.has(sessionId)) this.#fromCaller.set(sessionId, command);
  }

  forget(sessionId: string): void {
    this.#fromCaller.delete(sessionId);
  }

  #fetchingArgv(agent: string | undefined): readonly string[] {
    const form = this.#agents.get(agent ?? "")?.acp;
    const argv = form === undefined ? null : fetchingArgv(form);
    if (argv !== null) return argv;
    throw new BadInput(
      "fetch",
      `agent ${JSON.stringify(agent)} has no npm package to fetch; \`holdfast agents list\` shows how to install it. Nothing was started`,
    );
  }

  #lookup(agent: string | null, argv: readonly string[] | null): AgentCommand | null {
    const entry = agent === null ? undefined : this.#agents.get(agent);
    const passEnv = [...this.#passEnv, ...(entry?.passEnv ?? [])];
    const given = { inherit: cleanEnvironment(passEnv), passEnv };
    // An agent that was fetched is started in the same way again.
    const fetched = argv?.[0] === "npx" && argv[2]?.startsWith("--package=") === true ? argv : null;
    if (entry?.acp !== undefined) return { argv: fetched ?? entry.acp.argv, env: entry.env, ...given };
    return argv === null ? null : { argv, env: {}, ...given };
  }
}
