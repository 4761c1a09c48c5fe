import { expect, test } from "vitest";
import { gatewayAndCliForFile } from "../support/cli/batch-cli.js";

const shared = gatewayAndCliForFile();
const holdfast = (...args: readonly string[]) => shared.batchCli.holdfast(...args);

/** What recolours, reorders and breaks a line on a terminal, and JSON may leave as it is. */
const HOSTILE = "a\u009b31m\u202eb\u2028c\u007f";
const STEERS = /[\u007f-\u009f\u202e\u2028]/;

test("--json of every command that shows what a process or a person said steers no terminal, and says the same", async () => {
  const run = await holdfast("run", "--json", "--label", `odd=${HOSTILE}`, "--", "printf", "%s", HOSTILE);
  const { runId } = JSON.parse(run.stdout) as { readonly runId: string };
  const { stdout: opened } = await holdfast("sessions", "create", "--json", "--key", "odd");
  const { session } = JSON.parse(opened) as { readonly session: { readonly id: string } };
  const said = [
    run,
    await holdfast("runs", "list", "--all", "--json"),
    await holdfast("runs", "show", "--json", runId),
    await holdfast("sessions", "send", "--json", session.id, HOSTILE),
    await holdfast("sessions", "history", "--json", session.id),
    await holdfast("sessions", "inbox", "--json", session.id),
  ];
  for (const { code, stdout } of said) {
    expect(code).toBe(0);
    expect(stdout).not.toMatch(STEERS);
    expect(JSON.stringify(JSON.parse(stdout))).toContain(JSON.stringify(HOSTILE).slice(1, -1));
  }
});
