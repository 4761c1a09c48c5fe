import { isatty } from "node:tty";
import type { GatewayClient } from "../../api/client.js";
import { listAgents } from "./list-check-run.js";
import { notice } from "../print/errors-and-notices.js";
import { ask } from "../print/terminal-prompt.js";

/**
 * True if the agent is not installed, its npm package can be fetched, and the user agrees: with `--yes`, or on the
 * terminal. False: the agent is started as it is installed, or is reported as not found.
 */
export async function consentToFetch(client: GatewayClient, agent: string, yes: boolean): Promise<boolean> {
  const { agents } = await listAgents(client);
  const form = agents.find(({ id }) => id === agent)?.acp ?? null;
  if (form === null || form.executable !== null || form.npm === null) return false;
  const program = form.argv[0] ?? agent;
  const npmPackage = `${form.npm.package}@${form.npm.version}`;
  if (yes) {
    notice(`${program} is not installed: fetching ${npmPackage} with npx`, "dim");
    return true;
  }
  if (!isatty(0) || !isatty(2)) {
    notice(`${program} is not installed; --yes fetches ${npmPackage} with npx and runs it`, "yellow");
    return false;
  }
  const answer = await ask(`${program} is not installed. Fetch ${npmPackage} with npx, and run it? [y/N] `);
  if (answer === null) process.stderr.write("\n");
  return /^y(es)?$/i.test(answer?.trim() ?? "");
}
