import { describe, expect, test } from "vitest";
import { guessWaitingForInput } from "../../src/terminal/waiting-for-input.js";
import { scaled } from "../support/scale.js";

describe("after a second of silence, a program seems to wait at", () => {
  test.each([
    "Password:",
    "[sudo] password for anna: ",
    "Enter passphrase for key '/home/anna/.ssh/id_ed25519': ",
    "Continue? [y/N] ",
    "Overwrite (yes/no)? ",
    "Are you sure you want to continue connecting (yes/no/[fingerprint])? ",
    "What is your name? ",
    "package name: (holdfast) name: ",
    "user@host:~$ ",
    "\u001b]0;title\u0007\u001b[1;32muser@host\u001b[0m:~# ",
    "host% ",
    "~ ❯ ",
    "> ",
    ">>> ",
    "sqlite> ",
    "... ",
    "In [1]: ",
    "(gdb) ",
    "(Pdb) ",
    "Press any key to continue . . .",
    "Press ENTER to continue",
    "--More--(42%)",
    ":",
    "done\nName: ",
    "Loading 50%\rUser: ",
  ])("%j", (tail) => {
    expect(guessWaitingForInput({ tail, idleMs: 1_000 })).toMatchObject({ seems: true });
    expect(guessWaitingForInput({ tail, idleMs: 999 })).toMatchObject({ seems: false });
  });
});

describe("a line that is not a prompt needs fifteen seconds of silence:", () => {
  test.each([
    "",
    "building",
    "Password:\n",
    "$ \n",
    "50% ",
    "<b>bold</b>",
    "a --> ",
    "10 => ",
    "Loading...",
    "\r",
  ])("%j", (tail) => {
    expect(guessWaitingForInput({ tail, idleMs: 14_999 })).toMatchObject({ seems: false });
    expect(guessWaitingForInput({ tail, idleMs: 15_000 })).toMatchObject({ seems: true });
  });
});

test("the reason is one short, safe line, whatever the program printed", () => {
  const { because } = guessWaitingForInput({ tail: `\u001b[2J${"x\u202e".repeat(10_000)}: `, idleMs: 2_000 });
  expect(because).not.toMatch(/[\p{Cc}\u202e]/u);
  expect(because.length).toBeLessThan(200);
});

test("a hostile line is matched quickly", () => {
  const began = performance.now();
  for (const unit of ["password", "press ", "?(", "> ", "[y/", ">>", " "])
    guessWaitingForInput({ tail: unit.repeat(1_000_000 / unit.length), idleMs: 2_000 });
  expect(performance.now() - began).toBeLessThan(scaled(1_000));
});
