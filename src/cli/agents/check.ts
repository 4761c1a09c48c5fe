import { isatty } from "node:tty";
import type { ResponseOf } from "../../api/contract.js";
import { environmentOutsideRuns } from "../../gateway/start.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { notice } from "../print/stderr.js";
import { exitCodes } from "../print/exit-code.js";
import { connectOrStart } from "../client/connect.js";
import { toJson } from "../json.js";
import { paletteFor } from "../print/palette.js";
import { sessionToken } from "../client/requester.js";
import { print } from "../print/stdout.js";
import { formatTable } from "../print/table.js";

type AgentCheck = ResponseOf<"checkAgent">;

/** Those that are named, or else all that are there. 3: not every one of their commands works. */
export async function checkAgents(names: readonly string[], json: boolean): Promise<number> {
  const { client } = await connectOrStart();
  const environment = environmentOutsideRuns();
  const checked: AgentCheck[] = [];
  for (const id of names.length > 0 ? names : await found()) {
    const answer = await client.checkAgent({
      params: { id },
      body: sessionToken() === null ? { environment } : {},
    });
    checked.push(names.length > 0 ? answer : { ...answer, checks: answer.checks.filter(hasExecutable) });
  }
  if (json) print(toJson(checked, 2));
  else if (checked.length === 0)
    notice("no agent is there; `holdfast agents list` says how to get one", "dim");
  else print(`${checkTable(checked, isatty(1) ? process.stdout.columns : null).join("\n")}\n`);
  const well = checked.every(({ checks }) => checks.every(({ failure }) => failure === null));
  return well ? 0 : exitCodes.incomplete;

  async function found(): Promise<string[]> {
    const path = (environment["PATH"] ?? "").slice(0, 8_192);
    const { agents } = await client.listAgents({ query: sessionToken() === null ? { path } : {} });
    return agents
      .filter(({ acp, cli }) => (acp?.executable ?? cli?.executable ?? null) !== null)
      .map(({ id }) => id);
  }
}

function hasExecutable({ executable }: AgentCheck["checks"][number]): boolean {
  return executable !== null;
}

function checkTable(checked: readonly AgentCheck[], width: number | null): string[] {
  const rows = checked.flatMap(({ agent: { id }, checks }) =>
    checks.map(({ forms, executable, version, failure }) => [
      id,
      forms.join(", "),
      sanitizeLine(version ?? "-"),
      failure ?? "works",
      sanitizeLine(executable ?? "-"),
    ]),
  );
  const [head, ...rest] = formatTable([["AGENT", "FOR", "VERSION", "CHECK", "PROGRAM"], ...rows], width);
  return [paletteFor(1).bold(head ?? ""), ...rest];
}
