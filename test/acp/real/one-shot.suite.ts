import { expect, test } from "vitest";
import { agentsOf } from "../../../src/agents/catalogue.js";
import { type CliResult, parseCliOutput } from "../../../src/agents/cli-output.js";
import { cliCommand } from "../../../src/agents/command-line.js";
import { processesOf, realSupervisor, textOf } from "../../supervisor/real-supervisor.js";
import { living, NASTY_THEN_DONE } from "./nasty-tree.js";
import { settle } from "./settle.js";

const timeoutMs = 110_000;

/** Those whose packages have a command beside the adapter. */
test.each(["opencode", "gemini", "qwen"])(
  "%s: a prompt by its command, its answer read, then resumed",
  async (name) => {
    const { home, model, inherit } = await settle(name);
    const form = agentsOf().get(name)!.cli!;
    const supervisor = await realSupervisor();
    const ask = async (prompt: string, sessionId: string | null): Promise<CliResult | null> => {
      const { argv, stdin, noOutputTimeoutMs } = cliCommand(form, { prompt, sessionId, timeoutMs });
      const run = await supervisor.spawn(
        { io: "pipe", argv },
        { inherit, cwd: home, timeoutMs, noOutputTimeoutMs, onEscape: "sweep", graceMs: 300 },
      );
      await run.write(stdin ?? "");
      await run.closeStdin();
      const { stdout, stderr } = await textOf(run);
      const { exit } = await run.wait();
      expect(exit, stderr).toMatchObject({ reason: "exit", code: 0 });
      expect(await processesOf(run.runId)).toEqual([]);
      expect(living()).toBe("");
      return parseCliOutput(form.output, stdout);
    };
    model.script.command = name === "opencode" ? NASTY_THEN_DONE : null;
    model.script.text = "First answer.";
    const first = await ask("--what is this?", null);
    expect(first).toMatchObject({ text: "First answer.", error: null });
    expect(model.heard).toContain("--what is this?");
    model.script.command = null;
    model.script.text = "Second answer.";
    const second = await ask("and that?", first?.sessionId ?? "none");
    expect(second).toEqual({ text: "Second answer.", sessionId: first?.sessionId, error: null });
    // It remembers.
    expect(model.heard).toContain("--what is this?");
  },
  2 * timeoutMs,
);
