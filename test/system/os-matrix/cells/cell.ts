import type { openSupervisor } from "../../../../src/supervisor/open.js";
import type { OsFixture } from "./os-fixture.js";

export type Io = "pipe" | "pty";
export const ios: readonly Io[] = ["pipe", "pty"];

/** An operating system with its anchor, which `HOLDFAST_ANCHOR` names. */
export interface Platform {
  readonly name: "Linux" | "Windows" | "Windows (Wine)" | "macOS (shims)";
  /** The tier of its runs. It proves which anchor served a cell. */
  readonly tier: RegExp;
  /** The library in this process; `dist/index.js` is the same in others. */
  readonly openSupervisor: typeof openSupervisor;
  /** Longer than a tree of processes needs to start. */
  readonly deadlineMs: number;
}

/** A scenario of the matrix. Independent of vitest, because it also runs in Node for Windows. */
export interface Cell {
  readonly name: string;
  /** Null: it runs there. Otherwise the reason to skip it. */
  readonly whyNot?: (platform: Platform, io: Io) => string | null;
  readonly run: (fixture: OsFixture) => Promise<void>;
}

export interface CellResult {
  readonly cell: string;
  readonly io: Io;
  readonly outcome: "passed" | "skipped" | "failed";
  /** The reason to skip or the failure. */
  readonly message: string;
}

/** A program in a terminal of Wine 8 has no standard handles: its output goes nowhere, and it gets no input. */
export function conptyWithoutHandles(platform: Platform, io: Io): string | null {
  return platform.name === "Windows (Wine)" && io === "pty"
    ? "Wine 8 gives a program in a ConPTY no standard handles"
    : null;
}
