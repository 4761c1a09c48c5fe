import { isatty } from "node:tty";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import { environmentOutsideRuns } from "../../gateway/start-in-background.js";
import { connectOrStart } from "../client/connect.js";
import { notice } from "../print/errors-and-notices.js";
import { exitCodes } from "../print/exit-code.js";

interface LoginFlags {
  readonly method?: string;
  readonly agentCommand?: string;
}

/** Logs in to an agent: the agent does it itself, or its command runs in this terminal. */
export async function loginToAgent(agent: string | undefined, flags: LoginFlags): Promise<number> {
  const { method, agentCommand } = flags;
  if ((agent === undefined) === (agentCommand === undefined))
    throw new BadInput("agent", "give either an agent of the catalogue or --agent-command; nothing was done");
  const { client } = await connectOrStart();
  if (process.stderr.isTTY) notice("starting the agent for its login; a browser may open", "dim");
  const { method: used, terminal } = await client.acpLogin({
    body: {
      // A login in a terminal appends arguments to the command.
      ...(agent === undefined ? { argv: ["/bin/sh", "-c", `${agentCommand} "$@"`, "sh"] } : { agent }),
      cwd: process.cwd(),
      environment: environmentOutsideRuns(),
      ...(method === undefined ? {} : { method }),
    },
  });
  if (terminal !== null) {
    const code = await runLogin(terminal, used.name);
    if (code !== 0) {
      notice(`the login has failed: its command exited with ${code}`, "red");
      return exitCodes.refused;
    }
  }
  notice(`logged in (${used.name})`, "dim");
  return 0;
}

async function runLogin(
  { argv, env }: { readonly argv: readonly string[]; readonly env: Readonly<Record<string, string>> },
  name: string,
): Promise<number> {
  if (!isatty(0) || !isatty(1))
    throw new BadInput("method", `the login "${name}" needs a terminal; nothing was done`);
  const { runInForeground } = await import("../run/run-in-foreground.js");
  return runInForeground({
    input: { io: "pty", argv: [...argv] },
    options: { env, allowEnv: Object.keys(env), graceMs: defaults.graceMs, onEscape: "sweep" },
    inProcess: false,
    json: false,
  });
}
