import { hostname } from "node:os";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator, connectIfRunning, connectOrStart } from "../client/connect.js";
import { formatDuration } from "../../text/format-units.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { openInBrowser, type Opened } from "./open-browser.js";

interface DashboardFlags {
  readonly open: boolean;
  readonly close?: true;
  readonly json?: true;
  readonly session?: string;
  readonly port?: number;
}

export async function dashboardCommand(flags: DashboardFlags): Promise<number> {
  const { json = false, session, port } = flags;
  if (flags.close === true) {
    if (session !== undefined || port !== undefined)
      throw new BadInput(
        "close",
        "--close ends the dashboard of everyone; use it without --session and --port",
      );
    return closeDashboard(json);
  }
  const { client, home } = await connectOrStart();
  const link = await client.openDashboard({
    body: { ...(session === undefined ? {} : { session }), ...(port === undefined ? {} : { port }) },
  });
  if (json) {
    print(toJson(link, 2));
    return 0;
  }
  print(`${sanitizeLine(link.url)}\n`);
  notice(`the link works once, within ${formatDuration(defaults.dashboardLinkMs)}`, "dim");
  if (flags.open) explain(await openInBrowser(home, link.url), link.address);
  return 0;
}

/** Tells the user how to open the link by hand. */
function explain(opened: Opened, address: string): void {
  if (opened.outcome === "opened") return;
  const port = address.slice(address.lastIndexOf(":") + 1);
  const forward = `on your machine run \`ssh -L ${port}:127.0.0.1:${port} ${hostname()}\`, then open the link there`;
  if (opened.outcome === "remote")
    notice(`no browser was opened, because this shell came through SSH; ${forward}`, "yellow");
  else if (opened.outcome === "no-display")
    notice(
      `no browser was opened, because there is no display; open the link in a browser of this machine, or from another one: ${forward}`,
      "yellow",
    );
  else
    notice(
      `no browser could be started (${opened.reasons.join("; ")}); open the link yourself, or set BROWSER to the command of a browser`,
      "yellow",
    );
}

async function closeDashboard(json: boolean): Promise<number> {
  assertOperator("close the dashboard");
  const running = await connectIfRunning();
  const answer = (await running?.client.closeDashboard()) ?? { closed: false };
  if (json) print(toJson(answer, 2));
  else print(answer.closed ? "the dashboard is closed\n" : "the dashboard was not open\n");
  return 0;
}
