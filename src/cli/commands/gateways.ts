import type { Command } from "commander";
import type { SetExitCode } from "../program.js";

const gatewaysExamples = `
up           heard of within half a minute
silent       not heard of for longer: busy, cut off, or killed
unreachable  not for five minutes; its runs are left to it, see docs/postgres.md
stopped      it said good-bye

Only reads the store: it asks no gateway, and starts none.

Examples:
  holdfast gateways list
  holdfast gateways list --json | jq '.[] | select(.presence != "up") | .hostName'
`;

export function addGatewaysCommand(program: Command, setExitCode: SetExitCode): void {
  const gateways = program
    .command("gateways")
    .summary("every gateway that shares this store")
    .description("Every gateway that keeps its runs in this store, on whatever host.");
  gateways
    .command("list")
    .summary("each with its host, how it is, and how many runs it holds")
    .description("Every gateway on record: its host, whether it is heard of, how many open runs it holds.")
    .option("--json", "as a JSON array")
    .addHelpText("after", gatewaysExamples)
    .action(async ({ json }: { readonly json?: true }) => {
      const { printGateways } = await import("../gateway/list.js");
      setExitCode(await printGateways(json === true));
    });
}
