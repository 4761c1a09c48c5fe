import { BadInput } from "../../errors.js";
import type { ExecEffect, ExecRule } from "../../model/session.js";
import { splitShellWords } from "../../supervisor/split-command.js";

/** `ls`, `/usr/bin/wc -l ...`, or `*` for every program: the words after the first are the arguments. */
export function parseExecRule(effect: ExecEffect, text: string): ExecRule {
  const [executable, ...args] = splitShellWords(text) ?? [];
  if (executable === undefined)
    throw new BadInput(effect, `${JSON.stringify(text)} names no program; write one, or * for every program`);
  return {
    effect,
    ...(executable === "*" ? {} : { executable }),
    ...(args.length === 0 ? {} : { args }),
  };
}
