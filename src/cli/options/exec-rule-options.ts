import type { Command } from "commander";
import type { ExecEffect, ExecRule } from "../../model/exec/exec-rule.js";
import { asOptionParser, parseExecRule } from "./parsers.js";

/** Exec rules as the API takes them. */
export type GivenExecRule = Omit<ExecRule, "args"> & { args?: string[] };

/**
 * Adds the options for exec rules. The order of the options on the command line is the order of the rules, so the result
 * is read after the command line was parsed.
 */
export function addExecRuleOptions(command: Command, prefix: "" | "exec-"): () => GivenExecRule[] {
  const rules: ExecRule[] = [];
  const collect = (effect: ExecEffect) => (text: string) =>
    void rules.push(asOptionParser((words) => parseExecRule(effect, words))(text));
  command
    .option(`--${prefix}allow <rule>`, "allow commands that match (repeatable)", collect("allow"))
    .option(
      `--${prefix}ask <rule>`,
      "ask the operator about commands that match (repeatable)",
      collect("ask"),
    )
    .option(`--${prefix}deny <rule>`, "deny commands that match (repeatable)", collect("deny"));
  return () => rules.map(({ args, ...each }) => (args === undefined ? each : { ...each, args: [...args] }));
}
