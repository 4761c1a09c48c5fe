import { describe, expect, test } from "vitest";
import { BadInput } from "../../../src/errors.js";
import type { CommandInput } from "../../../src/supervisor/api.js";
import { checkCommand, checkExecSize } from "../../../src/supervisor/spawn/plan.js";

describe("a command is used unchanged", () => {
  test.each<[CommandInput, readonly string[]]>([
    [{ io: "pipe", argv: ["echo", "", " a ", "-x"] }, ["echo", "", " a ", "-x"]],
    [{ io: "pty", argv: ["vi"] }, ["vi"]],
    [{ io: "pty", ptyCommand: "ls | wc -l" }, ["/bin/sh", "-c", "ls | wc -l"]],
    [{ io: "pty", ptyCommand: " a  'b'\n", shell: "/bin/bash" }, ["/bin/bash", "-c", " a  'b'\n"]],
  ])("%j", (input, argv) => {
    expect(checkCommand(input)).toEqual({ argv, io: input.io });
  });

  test("the caller's array is copied", () => {
    const argv = ["a"];
    const checked = checkCommand({ io: "pipe", argv });
    argv[0] = "b";
    expect(checked.argv).toEqual(["a"]);
  });
});

describe("refused before anything is recorded", () => {
  test.each<[string, unknown, string]>([
    ["no words", { io: "pipe", argv: [] }, "empty"],
    ["an empty program", { io: "pty", argv: ["", "x"] }, "empty"],
    ["NUL in the program", { io: "pipe", argv: ["a\0b"] }, "NUL"],
    ["NUL in an argument", { io: "pipe", argv: ["a", "b\0"] }, "NUL"],
    ["NUL in a ptyCommand", { io: "pty", ptyCommand: "a\0" }, "NUL"],
    ["NUL in a shell", { io: "pty", ptyCommand: "a", shell: "sh\0" }, "NUL"],
    ["an empty ptyCommand", { io: "pty", ptyCommand: "" }, "ptyCommand is empty"],
    ["a blank ptyCommand", { io: "pty", ptyCommand: " \n" }, "ptyCommand is empty"],
    ["an empty shell", { io: "pty", ptyCommand: "ls", shell: "" }, "empty"],
    ["no io", { argv: ["a"] }, "io is missing"],
    ["another io", { io: "socket", argv: ["a"] }, `io is "socket"`],
    ["no argv", { io: "pipe" }, "not a list of strings"],
    ["argv as text", { io: "pipe", argv: "ls" }, "not a list of strings"],
    ["a number in argv", { io: "pipe", argv: ["sleep", 5] }, "not a list of strings"],
    ["ptyCommand on a pipe", { io: "pipe", ptyCommand: "ls" }, "needs a PTY"],
    ["both", { io: "pty", argv: ["ls"], ptyCommand: "ls" }, "both"],
    ["a shell for argv", { io: "pty", argv: ["ls"], shell: "/bin/sh" }, "needs a ptyCommand"],
    ["nothing", undefined, "not an object"],
    ["null", null, "not an object"],
  ])("%s", (_, input, sentence) => {
    expect(() => checkCommand(input as CommandInput)).toThrow(BadInput);
    expect(() => checkCommand(input as CommandInput)).toThrow(sentence);
  });
});

describe("a command that is too long for the kernel", () => {
  const limit = 128 * 1024;

  test("one argument up to the kernel's limit passes, one byte more does not", () => {
    expect(() => checkExecSize(["echo", "x".repeat(limit - 1)], {})).not.toThrow();
    expect(() => checkExecSize(["echo", "x".repeat(limit)], {})).toThrow("argument 1 has 131072 bytes");
  });

  test("bytes count, not characters", () => {
    expect(() => checkExecSize(["echo", "ü".repeat(limit / 2)], {})).toThrow(BadInput);
  });

  test("a variable counts with its name", () => {
    expect(() => checkExecSize(["x"], { A: "x".repeat(limit - 3) })).not.toThrow();
    expect(() => checkExecSize(["x"], { A: "x".repeat(limit - 2) })).toThrow("the environment variable A");
  });

  test("many small ones count together, with a pointer each", () => {
    expect(() =>
      checkExecSize(
        Array.from({ length: 200_000 }, () => "x"),
        {},
      ),
    ).not.toThrow();
    expect(() =>
      checkExecSize(
        Array.from({ length: 210_000 }, () => "x"),
        {},
      ),
    ).toThrow("stdin or in a file");
    const large = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`V${at}`, "x".repeat(110_000)]));
    expect(() => checkExecSize(["x"], large)).toThrow(BadInput);
  });
});
