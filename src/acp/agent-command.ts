import { redactArguments } from "../text/redact.js";

/** The backend of ACP agents, in the records of their runs and sessions. */
export const ACP_BACKEND = "acp";

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
