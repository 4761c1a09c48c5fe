import { createHash, randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import { CliFixture, type CliResult } from "../../support/cli/cli-fixture.js";
import { fixtureFactory, SUPERVISION_MODES } from "../../support/cli/supervision-modes.js";
import { repetitions, scaled, soak } from "../../support/scale.js";

const quiet = { stdout: "", stderr: "" };

describe.each(SUPERVISION_MODES)("%s", (mode) => {
  const open = fixtureFactory(mode);
  /** For what does not depend on the mode: ordinarily only in the one that users have by default. */
  const testOnce = soak || mode !== "in its own process" ? test : test.skip;

  describe("the exit code", () => {
    test("is that of the command, or 128+n after signal n", async () => {
      await using cliFixture = await open();
      for (const [script, code] of [
        ["exit 7", 7],
        ["kill -SEGV $$", 139],
        ["true", 0],
      ] as const)
        expect(await cliFixture.holdfast("run", "--", "sh", "-c", script)).toMatchObject({ code, ...quiet });
    });

    test.each<[string, readonly string[], number, string]>([
      ["127 for a command that does not exist", ["--", "no-such-command"], 127, "cannot run no-such-command"],
      [
        "124 after the overall timeout",
        ["--timeout", "200ms", "--", "sleep", "60"],
        124,
        "after 200ms (--timeout)",
      ],
      [
        "124 after no output",
        ["--no-output-timeout", "300ms", "--", "sh", "-c", "echo a >&2; sleep 60"],
        124,
        "no output for 300ms",
      ],
      [
        "120 for an escape of a successful command",
        ["--", "sh", "-c", "setsid sleep 60 & sleep 0.2"],
        120,
        "cleaned up 1 leftover process: sleep",
      ],
    ])("is %s, with one line on stderr", async (_, args, code, sentence) => {
      await using cliFixture = await open();
      checkRefusal(await cliFixture.holdfast("run", ...args), code, sentence);
    });

    testOnce(
      "of an escape with --on-escape sweep is that of the command, and the leftovers are reported",
      async () => {
        await using cliFixture = await open();
        const result = await cliFixture.shell(
          "holdfast run --on-escape sweep -- sh -c 'setsid sleep 60 & sleep 0.2'",
        );
        expect(result.code).toBe(0);
        expect(result.stderr).toMatch(
          /^holdfast: cleaned up 1 leftover process: sleep \(pid \d+, detached\)\n$/,
        );
      },
    );

    testOnce(
      "of a failed command with background jobs is that of the command, and the jobs are gone",
      async () => {
        await using cliFixture = await open();
        const result = await cliFixture.holdfast("run", "--", "sh", "-c", "sleep 60 & sleep 61 & exit 3");
        expect(result.code).toBe(3);
        expect(result.stderr).toContain("cleaned up 2 leftover processes");
      },
    );
  });

  describe("input and output pass through", () => {
    test("byte for byte, in both directions, more than any buffer holds", async () => {
      await using cliFixture = await open();
      const sent = randomBytes(repetitions(4, 20) * 1024 * 1024);
      const { child, raw, finished } = cliFixture.start(
        ...["run", "--buffer", "1M", "--", "sh", "-c", "tee /dev/stderr"],
      );
      child.stdin.end(sent);
      const hash = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
      expect((await raw).map(hash)).toEqual([hash(sent), hash(sent)]);
      expect((await finished).code).toBe(0);
    });

    test("to a slow reader without loss: the command waits", async () => {
      await using cliFixture = await open();
      const { code, stdout } = await cliFixture.shell(
        "holdfast run --buffer 256K -- head -c 3000000 /dev/zero | (sleep 1; wc -c); exit ${PIPESTATUS[0]}",
      );
      expect({ code, stdout: stdout.trim() }).toEqual({ code: 0, stdout: "3000000" });
    });

    testOnce("stdout and stderr separately, or both on stdout with --merge", async () => {
      await using cliFixture = await open();
      const script = "echo out; echo err >&2; echo out again";
      expect(await cliFixture.holdfast("run", "--", "sh", "-c", script)).toMatchObject({
        stdout: "out\nout again\n",
        stderr: "err\n",
      });
      expect(await cliFixture.holdfast("run", "--merge", "--", "sh", "-c", script)).toMatchObject({
        stdout: "out\nerr\nout again\n",
        stderr: "",
      });
    });

    testOnce("options and dashes of the command are not interpreted", async () => {
      await using cliFixture = await open();
      const words = ["--timeout", "-x", "--", "", "a b", "--json"];
      const { stdout } = await cliFixture.holdfast("run", "--", "printf", "%s|", ...words);
      expect(stdout).toBe("--timeout|-x|--||a b|--json|");
      expect((await cliFixture.holdfast("run", "printf", "%s|", ...words)).stdout).toBe(stdout);
    });

    test("from a closed stdin, /dev/null, a file, a directory, and to a command that does not read", async () => {
      await using cliFixture = await open();
      const file = join(cliFixture.home, "input");
      await writeFile(file, "from a file");
      const { stdout } = await cliFixture.shell(`
      holdfast run -- cat <&-; echo "closed $?"
      holdfast run -- cat </dev/null; echo "null $?"
      holdfast run -- cat <"${file}"; echo " $?"
      yes | holdfast run -- true; echo "unread $?"
      holdfast run -- cat </; echo "directory $?"`);
      expect(stdout).toBe("closed 0\nnull 0\nfrom a file 0\nunread 0\ndirectory 0\n");
    });

    testOnce("a command that closes its stdin ends the writer with EPIPE", async () => {
      await using cliFixture = await open();
      const { stdout } = await cliFixture.shell(`
      { yes; echo "$?" >"${cliFixture.home}/yes"; } | holdfast run -- sh -c 'exec <&-; sleep 2'
      cat "${cliFixture.home}/yes"`);
      expect(stdout).toBe("141\n");
    });

    test("until the reader leaves: the run ends at once and silently, as in any pipeline", async () => {
      await using cliFixture = await open();
      const began = performance.now();
      const result = await cliFixture.shell("holdfast run -- yes | head -1; exit ${PIPESTATUS[0]}");
      expect(result).toEqual({ code: 141, signal: null, stdout: "y\n", stderr: "" });
      expect(performance.now() - began).toBeLessThan(scaled(5_000));
    });

    testOnce("a failed write is reported, and fails a command that succeeded", async () => {
      await using cliFixture = await open();
      const result = await cliFixture.shell("holdfast run -- echo hi >/dev/full");
      expect(result).toMatchObject({
        code: 125,
        stderr: expect.stringContaining("cannot write stdout: ENOSPC") as string,
      });
      const json = await cliFixture.shell("holdfast run --json -- true >/dev/full");
      expect(json).toMatchObject({
        code: 125,
        stderr: expect.stringMatching(/ENOSPC.*; the record of run_\w+ was not written/) as string,
      });
      expect(
        await cliFixture.shell("holdfast run -- sh -c 'sleep 0.3; echo hi' | true; exit ${PIPESTATUS[0]}"),
      ).toMatchObject({ code: 141, stderr: "" });
    });

    // A supervisor in this process has the same limit for its own files.
    test.skipIf(mode === "in its own process")(
      "to a file at the size limit of this process: the failure is reported",
      async () => {
        await using cliFixture = await open();
        const result = await cliFixture.shell(
          `ulimit -f 8; holdfast run -- head -c 200000 /dev/zero >"${cliFixture.home}/limited"`,
        );
        expect(result).toMatchObject({
          code: 125,
          stderr: expect.stringContaining("cannot write stdout: EFBIG") as string,
        });
      },
    );

    testOnce("escape sequences in the name of a leftover process are not printed", async () => {
      await using cliFixture = await open();
      const name = join(cliFixture.home, "\x1b[2Jevil");
      await writeFile(name, "#!/bin/sh\nsleep 60\n", { mode: 0o755 });
      const { stderr } = await cliFixture.holdfast("run", "--", "sh", "-c", `"${name}" & sleep 0.2`);
      expect(stderr).toContain("cleaned up");
      expect(stderr.replaceAll("\n", "")).not.toMatch(/[\x00-\x1f]/);
    });
  });

  describe("the environment of the command", () => {
    testOnce("has the variables, directory and umask of the caller", async () => {
      await using cliFixture = await open();
      const directory = join(cliFixture.home, "d");
      await mkdir(directory);
      const { stdout } = await cliFixture.shell(
        `cd "${directory}"; umask 027; export MINE=1; holdfast run -- sh -c 'pwd; umask; echo $MINE'`,
      );
      expect(stdout).toBe(`${directory}\n0027\n1\n`);
    });

    testOnce("is changed by --cwd, --env, --allow-env and --clear-env", async () => {
      await using cliFixture = await open();
      const { stdout } = await cliFixture.shell(
        "holdfast run --cwd / --env A=b=c --env PYTHONPATH=/x --allow-env PYTHONPATH --clear-env -- sh -c 'pwd; env'",
      );
      const env = stdout.split("\n").filter((line) => !/^(HOLDFAST_|PWD|SHLVL|_=|OLDPWD)/.test(line));
      expect(env.toSorted()).toEqual(["", "/", "A=b=c", "PYTHONPATH=/x"]);
    });

    testOnce("a run inside a run has its own run id", async () => {
      await using cliFixture = await open();
      const { stdout, code } = await cliFixture.shell(`holdfast run -- bash -c '
      echo "$HOLDFAST_RUN_ID"; "${process.execPath}" dist/cli/main.js run -- sh -c "echo \\$HOLDFAST_RUN_ID"'`);
      const [outer, inner] = stdout.split("\n");
      expect(code).toBe(0);
      expect(outer).toMatch(/^run_/);
      expect(inner).toMatch(/^run_/);
      expect(inner).not.toBe(outer);
    });
  });

  describe("--json", () => {
    testOnce("prints the record on stdout, and all output on stderr", async () => {
      await using cliFixture = await open();
      const result = await cliFixture.shell(
        "holdfast run --json --label ticket=42 -- sh -c 'echo out; exit 4'",
      );
      const record = JSON.parse(result.stdout) as RunRecord;
      expect(result).toMatchObject({ code: 4, stderr: "out\n" });
      expect(record).toMatchObject({
        state: "exited",
        labels: { ticket: "42" },
        exit: { reason: "exit", code: 4 },
        emptiness: "proven",
        command: "sh -c 'echo out; exit 4'",
      });
    });

    testOnce("prints the record of a command that could not be started", async () => {
      await using cliFixture = await open();
      const result = await cliFixture.holdfast("run", "--json", "--", "no-such-command");
      expect(JSON.parse(result.stdout)).toMatchObject({
        state: "exited",
        exit: { reason: "spawn-error", errno: 2 },
      });
      expect(result.code).toBe(127);
    });

    testOnce("contains no secret of the command line", async () => {
      await using cliFixture = await open();
      const secret = "hunter2hunter2";
      const { stdout } = await cliFixture.holdfast(
        ...["run", "--json", "--env", `MY_TOKEN=${secret}`, "--", "true", "--password", secret],
      );
      expect(stdout).toContain("--password '***'");
      expect(stdout).not.toContain(secret);
      expect(await cliFixture.shell(`grep -rl ${secret} "${cliFixture.home}"`)).toMatchObject({ stdout: "" });
    });
  });
});

function checkRefusal({ stdout, stderr, code }: CliResult, expected: number, sentence: string): void {
  expect({ code, stdout }, stderr).toEqual({ code: expected, stdout: "" });
  const lines = stderr.split("\n").filter((line) => line.startsWith("holdfast: "));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain(sentence);
  expect(stderr).not.toMatch(/\n\s+at /);
}

test("a command that cannot be started as requested is refused with code 2, or 126 if it cannot be executed", async () => {
  await using cliFixture = await CliFixture.open();
  for (const [code, sentence, ...args] of [
    [126, "cannot run /etc/passwd", "--", "/etc/passwd"],
    [2, "/no/such", "--cwd", "/no/such", "--", "true"],
    [2, "empty", "--", ""],
    [2, "(--allow-env LD_PRELOAD", "-d", "--env", "LD_PRELOAD=/x.so", "--", "true"],
    [2, "--in-process", "-d", "--in-process", "--", "true"],
    [2, "--in-process", "--service", "--in-process", "--", "true"],
  ] as const)
    checkRefusal(await cliFixture.holdfast("run", ...args), code, sentence);
});

test("a successful command leaves only its record", async () => {
  await using cliFixture = await CliFixture.open();
  await cliFixture.holdfast("run", "--", "true");
  await cliFixture.expectNoProcesses();
  expect((await cliFixture.shell(`ls -A "${cliFixture.home}/instances"`)).stdout).toBe("");
});
