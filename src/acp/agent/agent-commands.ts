import type { AgentEntry } from "../../config/agents.js";
import { BadInput } from "../../errors.js";
import { cleanEnvironment } from "../../sessions/exec-environment.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { AcpSession } from "../../model/acp.js";
import type { AgentCommand } from "../agent-command.js";

export interface RequestedAgentCommand {
  /** Of the catalogue; or `argv`, any command that speaks ACP. */
  readonly agent?: string | undefined;
  readonly argv?: readonly string[] | undefined;
  /** The caller's. Not stored: an agent that is started again after a restart of the gateway has the gateway's. */
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /** The absolute path of the program that was judged. Default: the first word of the command line. */
  readonly executable?: string | undefined;
}

/** How agents are started: as was asked for, and again, as far as that is known. */
export class AgentCommands {
  readonly #agents: ReadonlyMap<string, AgentEntry>;
  readonly #sessions: Pick<Sessions, "issueRunToken" | "bindToken">;
  readonly #passEnv: readonly string[];
  /** What callers said to this process, their environment included; by session. */
  readonly #fromCaller = new Map<string, AgentCommand>();

  /** `passEnv`: variables that the config lets through to runs of sessions. */
  constructor(
    agents: ReadonlyMap<string, AgentEntry>,
    sessions: Pick<Sessions, "issueRunToken" | "bindToken">,
    passEnv: readonly string[],
  ) {
    this.#agents = agents;
    this.#sessions = sessions;
    this.#passEnv = passEnv;
  }

  /** What would be started; throws when it is not known. */
  resolve({ agent, argv, environment, executable }: RequestedAgentCommand): AgentCommand {
    if ((agent === undefined) === (argv === undefined))
      throw new BadInput("agent", "say which agent: by its name, or by its command; nothing was started");
    const known = this.#lookup(agent ?? null, argv ?? null);
    if (known !== null)
      return {
        ...known,
        ...(executable === undefined ? {} : { executable }),
        inherit: environment ?? known.inherit,
      };
    throw new BadInput(
      "agent",
      `there is no agent ${JSON.stringify(agent)} that speaks ACP: \`holdfast agents list\` shows those there are; nothing was started`,
    );
  }

  /** With a token of its session: what the agent starts can ask the gateway as that session. Null: not known any more. */
  async forRestart({ sessionId, agent, argv }: AcpSession): Promise<AgentCommand | null> {
    const known = this.#fromCaller.get(sessionId) ?? this.#lookup(agent, argv);
    if (known === null) return null;
    const token = await this.#sessions.issueRunToken(sessionId);
    return token === null ? known : { ...known, env: { ...known.env, HOLDFAST_TOKEN: token } };
  }

  /** Binds the token of `again` to this run; null: no run was started with it. Never rejects: a token without a run ends by its age. */
  async bindToken(command: AgentCommand | null, runId: string | null): Promise<void> {
    const token = command?.env?.["HOLDFAST_TOKEN"];
    if (token !== undefined) await this.#sessions.bindToken(token, runId).catch(() => undefined);
  }

  /** The first that is said of a session holds. */
  remember(sessionId: string, command: AgentCommand): void {
    if (!this.#fromCaller.has(sessionId)) this.#fromCaller.set(sessionId, command);
  }

  forget(sessionId: string): void {
    this.#fromCaller.delete(sessionId);
  }

  #lookup(agent: string | null, argv: readonly string[] | null): AgentCommand | null {
    const entry = agent === null ? undefined : this.#agents.get(agent);
    const passEnv = [...this.#passEnv, ...(entry?.passEnv ?? [])];
    const given = { inherit: cleanEnvironment(passEnv), passEnv };
    if (entry?.acp !== undefined) return { argv: entry.acp.argv, env: entry.env, ...given };
    return argv === null ? null : { argv, env: {}, ...given };
  }
}
