import type { Command } from "commander";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";
import { parseTcpPort } from "../options/parsers.js";

const examples = `
The page is served on a loopback port, from the first link until the last browser
logs out or twelve hours have passed. The link works once, within two minutes. The
page has your rights; with --session it has those of the session.

The command ends at once: Ctrl-C or a closed terminal ends neither the browser nor
the page. BROWSER names another browser, as a command or several with colons between
them; %s in a command stands for the page. Where no browser can be opened (no display,
a shell through SSH), the command prints what to do.

From another machine, forward the port through SSH (ssh -L 7434:127.0.0.1:7434 host),
print the link there with --no-open --port 7434, and open it here.

Examples:
  holdfast dashboard
  holdfast dashboard --session build --no-open
  holdfast dashboard --close
`;

export function addDashboardCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("dashboard")
    .summary("open a page in the browser: runs, sessions, tasks, approvals")
    .description(
      "Open a page in the browser that shows runs, sessions, tasks and approvals as they change. Prints the one-time link to it.",
    )
    .option("--no-open", "print the link, and start no browser")
    .option("--session <session>", "what this session may see and do, instead of everything")
    .option(
      "--port <port>",
      "the loopback port, if the page is not served yet (default: the former one, or a free one)",
      parseTcpPort,
    )
    .option("--close", "log every browser out, and stop serving the page")
    .option("--json", "print the link as JSON, and start no browser")
    .addHelpText("after", examples)
    .action(lazyAction(setExitCode, () => import("./open-and-close.js"), "dashboardCommand"));
}
