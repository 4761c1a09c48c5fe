import { BadInput } from "../../errors.js";
import type { RunIo } from "../../model/run.js";
import type { CommandInput } from "../api.js";

/** The shell of a `ptyCommand` without one. */
const DEFAULT_SHELL = "/bin/sh";

/** The kernel's MAX_ARG_STRLEN: one argument or variable, with its final NUL. */
const MAX_STRING_BYTES = 128 * 1024;
/** A quarter of the usual 8 MiB stack: the limit of execve(2) for all strings and their pointers. */
const MAX_TOTAL_BYTES = 2 * 1024 * 1024;
const POINTER_BYTES = 8;

export interface CheckedCommand {
  readonly argv: readonly string[];
  readonly io: RunIo;
}

/** The command to execute. Throws BadInput: input from JSON and JavaScript is not typed. */
export function checkCommand(input: CommandInput): CheckedCommand {
  const argv = argvOf(input);
  if (argv.length === 0 || argv[0] === "")
    throw new BadInput("command", "the command is empty; name a program to run");
  for (const word of argv)
    if (word.includes("\0"))
      throw new BadInput(
        "command",
        "the command contains a NUL character, which cannot be part of an argument",
      );
  return { argv, io: input.io };
}

/** Refuses, before anything is recorded, what execve would refuse with E2BIG. */
export function checkExecSize(argv: readonly string[], env: Readonly<Record<string, string>>): void {
  let total = 0;
  const count = (text: string, what: string): void => {
    const bytes = Buffer.byteLength(text) + 1;
    if (bytes > MAX_STRING_BYTES)
      throw new BadInput(
        "command",
        `${what} has ${bytes - 1} bytes; the limit of the system is ${MAX_STRING_BYTES - 1}`,
      );
    total += bytes + POINTER_BYTES;
  };
  for (const [at, word] of argv.entries()) count(word, `argument ${at}`);
  for (const [name, value] of Object.entries(env))
    count(`${name}=${value}`, `the environment variable ${name}`);
  if (total > MAX_TOTAL_BYTES)
    throw new BadInput(
      "command",
      `command and environment need ${total} bytes together; the limit of the system is ${MAX_TOTAL_BYTES}. Pass large data on stdin or in a file`,
    );
}

function argvOf(input: unknown): readonly string[] {
  if (!isObject(input)) throw badShape("it is not an object");
  const { io, argv, ptyCommand, shell } = input;
  if (io !== "pipe" && io !== "pty")
    throw badShape(`io is ${JSON.stringify(io) ?? "missing"}, not "pipe" or "pty"`);
  if (ptyCommand === undefined) {
    if (shell !== undefined) throw badShape("a shell needs a ptyCommand");
    if (!Array.isArray(argv) || !argv.every((word) => typeof word === "string"))
      throw badShape("argv is not a list of strings");
    return [...argv];
  }
  if (io !== "pty") throw badShape("a ptyCommand needs a PTY");
  if (argv !== undefined) throw badShape("it has both argv and ptyCommand");
  if (typeof ptyCommand !== "string") throw badShape("ptyCommand is not a string");
  if (shell !== undefined && typeof shell !== "string") throw badShape("shell is not a string");
  if (ptyCommand.trim() === "") throw new BadInput("command", "the ptyCommand is empty; nothing would run");
  return [shell ?? DEFAULT_SHELL, "-c", ptyCommand];
}

function isObject(value: unknown): value is Record<"io" | "argv" | "ptyCommand" | "shell", unknown> {
  return typeof value === "object" && value !== null;
}

function badShape(why: string): BadInput {
  return new BadInput(
    "command",
    `the command is none of { io: "pipe", argv }, { io: "pty", argv }, { io: "pty", ptyCommand, shell? }: ${why}`,
  );
}
