import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openSupervisor } from "../../../src/supervisor/open.js";
import type { Run, Supervisor } from "../../../src/supervisor/api.js";
import { cliPath, type CliFixture } from "../../support/cli/cli-fixture.js";
import { fixtureFactory, SUPERVISION_MODES } from "../../support/cli/supervision-modes.js";
import { soak } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

/** `holdfast` on a terminal, which is the PTY of a run. */
class Terminal {
  readonly run: Run;
  #screen = "";
  readonly #ended: Promise<void>;

  constructor(run: Run) {
    this.run = run;
    this.#ended = this.#follow();
  }

  async #follow(): Promise<void> {
    for await (const { bytes } of this.run.follow()) this.#screen += Buffer.from(bytes).toString("latin1");
  }

  async sees(text: string): Promise<void> {
    await waitFor(`${JSON.stringify(text)} is shown`, () => this.#screen.includes(text));
  }

  async type(keys: string): Promise<void> {
    await this.run.write(keys);
  }

  /** The exit code of the shell on the terminal, and everything it showed. */
  async end(): Promise<{ code: number | null; screen: string }> {
    const { exit } = await this.run.wait();
    await this.#ended;
    return { code: exit?.code ?? null, screen: this.#screen };
  }
}

describe.each(SUPERVISION_MODES)("%s", (mode) => {
  const open = fixtureFactory(mode);
  /** For what does not depend on the mode: ordinarily only in the one that users have by default. */
  const testOnce = soak || mode === "through the gateway" ? test : test.skip;

  let cliFixture: CliFixture;
  let supervisor: Supervisor;

  beforeAll(async () => {
    cliFixture = await open();
    supervisor = await openSupervisor({ home: cliFixture.home });
  });
  afterAll(async () => {
    await supervisor.close();
    await cliFixture[Symbol.asyncDispose]();
  });

  const holdfast = `"${process.execPath}" "${cliPath}"`;

  async function terminal(script: string): Promise<Terminal> {
    const run = await supervisor.spawn(
      { io: "pty", ptyCommand: script, shell: "/bin/bash" },
      {
        size: { rows: 30, cols: 100 },
        env: {
          HOLDFAST_HOME: cliFixture.home,
          TERM: "xterm",
          ...(mode === "through the gateway" ? {} : { HOLDFAST_IN_PROCESS: "1" }),
        },
      },
    );
    return new Terminal(run);
  }

  describe("with --pty on a terminal", () => {
    test("the terminal of the command has the same size, also after a change", async () => {
      const screen = await terminal(
        `${holdfast} run --pty -- bash -c 'until [ "$(stty size)" = "40 120" ]; do stty size; sleep 0.1; done; echo grown'`,
      );
      await screen.sees("30 100");
      screen.run.resize({ rows: 40, cols: 120 });
      await screen.sees("grown");
      expect((await screen.end()).code).toBe(0);
    });

    testOnce("Ctrl-C, Ctrl-Z and Ctrl-D are passed to the command as bytes", async () => {
      const screen = await terminal(
        `${holdfast} run --pty -- bash -c 'stty raw -echo; echo ready; head -c 4 | od -An -tx1'; echo "code $?"`,
      );
      await screen.sees("ready");
      await screen.type("\x03\x1a\x04\x1c");
      await screen.sees("code 0");
      expect((await screen.end()).screen).toContain("03 1a 04 1c");
    });

    test("Ctrl-C interrupts the foreground process of the command's terminal", async () => {
      const screen = await terminal(
        `${holdfast} run --pty -- bash -c 'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 0.05; done'; echo "code $?"`,
      );
      await screen.sees("ready");
      await screen.type("\x03");
      await screen.sees("code 9");
      expect((await screen.end()).screen).not.toContain("stopping");
    });

    testOnce("input is echoed once", async () => {
      const screen = await terminal(`${holdfast} run --pty -- sh -c 'echo ready; cat'; echo "code $?"`);
      await screen.sees("ready");
      await screen.type("hello\r");
      await screen.sees("hello\r\nhello\r\n");
      await screen.type("\x04");
      await screen.sees("code 0");
      expect((await screen.end()).screen.split("hello")).toHaveLength(3);
    });

    testOnce(
      "the terminal is restored when the command ends, fails, times out, or cannot be started",
      async () => {
        const screen = await terminal(
          `before=$(stty -g); for command in true 'exit 3' 'sleep 60' ''; do
          ${holdfast} run --timeout 500ms --pty -- \${command:+sh -c} "\${command:-no-such-command}"
          echo "code $?"; [ "$before" = "$(stty -g)" ] && echo same; done`,
        );
        const shown = (await screen.end()).screen.match(/code \d+|same/g);
        expect(shown).toEqual([0, 3, 124, 127].flatMap((code) => [`code ${code}`, "same"]));
      },
    );

    test("the terminal is restored after SIGTERM to holdfast", async () => {
      const screen = await terminal(
        `before=$(stty -g); ${holdfast} run --pty -- sh -c 'echo ready; sleep 60'; echo "code $?"; [ "$before" = "$(stty -g)" ] && echo same`,
      );
      await screen.sees("ready");
      const [inner] = (await cliFixture.processes()).filter((line) => line.includes(`${cliPath} run --pty`));
      process.kill(Number(inner?.split(" ")[0]), "SIGTERM");
      await screen.sees("code 143");
      await screen.sees("same");
      await screen.end();
    });

    test("a large burst loses no byte", async () => {
      const screen = await terminal(
        `${holdfast} run --pty -- seq 1 50000 | tail -1; echo "code \${PIPESTATUS[0]}"`,
      );
      await screen.sees("code 0");
      expect((await screen.end()).screen).toMatch(/^50000\r+\n/);
    });
  });

  describe("with --pty but without a terminal", () => {
    test("the command has a terminal, and the end of stdin is its end of input", async () => {
      const result = await cliFixture.shell(
        `printf 'a\nb\n' | holdfast run --pty -- sh -c 'stty size; test -t 0 && cat'; echo "code $?"`,
      );
      const shown = result.stdout.replaceAll("\r", "");
      // The terminal may echo the input before the command prints anything.
      expect(shown).toContain("24 80\n");
      expect(shown).toMatch(/a\nb\n(code 0\n)$/);
      expect(result.stderr).toBe("");
    });
  });

  describe("without an option", () => {
    const probe = `sh -c 'for fd in 0 1 2; do [ -t $fd ] && printf tty || printf no; done; echo'`;

    test("a command on a terminal gets a PTY of the same size", async () => {
      const screen = await terminal(`${holdfast} run -- sh -c 'stty size; tty <&2'; tty; echo "code $?"`);
      await screen.sees("code 0");
      const [size, inner, outer] = (await screen.end()).screen.split("\r\n");
      expect(size).toBe("30 100");
      expect(inner).toMatch(/^\/dev\/pts\/\d+$/);
      expect(inner).not.toBe(outer);
    });

    testOnce("a command with a redirected stream gets no PTY", async () => {
      const run = `${holdfast} run -- ${probe}`;
      const json = `${holdfast} run --json -- ${probe} 2>&1 >/dev/null`;
      const screen = await terminal(`${run} </dev/null; ${run} 2>/dev/null; ${run} | cat; ${json}`);
      expect((await screen.end()).screen.match(/nonono/g)).toHaveLength(4);
    });
  });

  describe("with --no-pty on a terminal", () => {
    testOnce("input reaches the command, and Ctrl-D ends it", async () => {
      const screen = await terminal(`${holdfast} run --no-pty -- sh -c 'echo ready; cat'; echo "code $?"`);
      await screen.sees("ready");
      await screen.type("hello\r");
      await screen.sees("hello\r\nhello\r\n");
      await screen.type("\x04");
      await screen.sees("code 0");
      await screen.end();
    });

    test("Ctrl-C stops the run, and a second one kills it", async () => {
      const screen = await terminal(
        `${holdfast} run --no-pty --grace 25s -- sh -c 'trap "" TERM; echo ready; while :; do sleep 0.05; done'; echo "code $?"`,
      );
      await screen.sees("ready");
      await screen.type("\x03");
      await screen.sees("press Ctrl-C again to kill");
      await screen.type("\x03");
      await screen.sees("code 130");
      expect((await screen.end()).screen).toContain("killing");
    });

    testOnce("in the background it is not stopped, and gets the terminal back with fg", async () => {
      const screen = await terminal(
        `set -m; ${holdfast} run -- sh -c 'echo up-$((40+2)); cat; echo over' & sleep 1.5; jobs; fg >/dev/null; echo "code $?"`,
      );
      await screen.sees("up-42");
      await screen.sees("Running");
      await setTimeout(500);
      await screen.type("typed\r");
      await screen.sees("typed\r\ntyped\r\n");
      await screen.type("\x04");
      await screen.sees("code 0");
      expect((await screen.end()).screen).toContain("over");
    });

    testOnce("messages are coloured on a terminal only", async () => {
      const script = `run --no-pty -- sh -c 'sleep 60 & exit 0'`;
      const screen = await terminal(`${holdfast} ${script}; NO_COLOR=1 ${holdfast} ${script}`);
      const shown = (await screen.end()).screen.split("\r\n");
      expect(shown[0]).toContain("\x1b[33mholdfast: cleaned up");
      expect(shown[1]).toMatch(/^holdfast: cleaned up/);
      expect((await cliFixture.shell(`holdfast ${script}`)).stderr).toMatch(/^holdfast: cleaned up/);
    });
  });
});
