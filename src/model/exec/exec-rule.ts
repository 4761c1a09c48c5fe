import { normalize } from "node:path";
import { z } from "zod";
import { EXEC_EFFECTS } from "../enums.js";
import type { RecordOf } from "../record-type.js";

/** Bounds the cost of matching, rules × words, to less than a millisecond. */
const MAX_RULES = 256;
const MAX_WORDS = 256;
const MAX_CHARACTERS = 4_096;

const nonEmptyText = z
  .string()
  .min(1)
  .max(MAX_CHARACTERS)
  .refine((value) => !value.includes("\0"), "must not contain NUL");

/** A resolved path never contains `..`, `.` or `//`, so a rule with one of them would never match. */
const plainPath = nonEmptyText.refine(
  (path) => path.startsWith("/") && normalize(path) === path,
  "must be an absolute path without . and ..",
);

const fileName = nonEmptyText.refine(
  (name) => !/[/*]/.test(name) && name !== "." && name !== "..",
  "must be a file name (leave it out to match every program)",
);

const executable = z.union([plainPath, fileName], {
  error:
    "must be an absolute path, a directory with / at the end, or a file name; leave it out for every program",
});

const args = z
  .array(z.string().max(MAX_CHARACTERS))
  .max(MAX_WORDS)
  .refine(
    (words) => words.slice(0, -1).every((word) => word !== "..."),
    "... stands for the rest and must be the last word; \\... is the word itself",
  );

const execEffectSchema = z.enum(EXEC_EFFECTS);

/** A rule in the configuration and in the API; sessions/match-exec-rules.ts matches it. */
export const execRuleSchema = z.strictObject({
  effect: execEffectSchema,
  executable: executable.optional(),
  calledAs: fileName.optional(),
  args: args.optional(),
  cwd: plainPath.optional(),
});

export const execRulesSchema = z.array(execRuleSchema).max(MAX_RULES);

/** A rule on the commands of a session. An absent part matches everything. */
export type ExecRule = RecordOf<typeof execRuleSchema>;
export type ExecEffect = ExecRule["effect"];
