import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openNativeHost } from "../../../src/anchor/native-host.js";
import {
  canCompile,
  compiler,
  execute,
  project,
  sanitizedAnchor,
  useSanitizedAnchor,
} from "../../support/anchor/sanitizers.js";
import { startSpec } from "../../support/anchor/start-spec.js";
import {
  findProcessesOfRun,
  plantLookalike,
  readOutput,
  realSupervisor,
  shellInput,
  temporaryHome,
  waitForOutput,
} from "../../support/supervisor/real-supervisor.js";

const soak = process.env["HOLDFAST_SOAK"] === "1";
const { reports } = useSanitizedAnchor();

describe.skipIf(!canCompile)("under the sanitizers, without a report:", () => {
  test("the launcher and the anchor are built with sanitizers", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(shellInput("read line"));
    const anchor = (await supervisor.getRun(begun.runId))?.anchor?.pid ?? 0;
    expect(await readFile(`/proc/${anchor}/environ`, "utf8")).toContain(`log_path=${reports()}/asan`);
    expect(await readFile(`/proc/${anchor}/maps`, "utf8")).toMatch(/libasan|asan/);
    await begun.closeStdin();
    await begun.wait();
  });

  test("a report of a sanitizer fails the test", async () => {
    const home = await temporaryHome();
    const [source, program] = [join(home, "wrong.c"), join(home, "wrong")];
    await writeFile(
      source,
      "#include <stdlib.h>\nint main(void) { char *p = malloc(1); p[1] = 1; free(p); }\n",
    );
    await execute("sh", [
      "-c",
      `${compiler} -fsanitize=address,undefined -o "$1" "$2"`,
      "sh",
      program,
      source,
    ]);
    await expect(execute(program, [])).rejects.toMatchObject({ code: 99 });
    const [name = ""] = await readdir(reports());
    expect(await readFile(join(reports(), name), "utf8")).toContain("heap-buffer-overflow");
    await rm(join(reports(), name));
  });

  test("a pipe run: input, both outputs, arguments, environment, exit code", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(shellInput("cat; echo $WORD >&2; exit 7"), {
      env: { WORD: "grün" },
      umask: 0o027,
    });
    const input = "0123456789\n".repeat(30_000);
    await begun.write(input);
    await begun.closeStdin();
    expect(await readOutput(begun)).toEqual({ stdout: input, stderr: "grün\n" });
    expect((await begun.wait()).exit).toMatchObject({ reason: "exit", code: 7 });
  });

  test("a PTY run: size, resize, end of input", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(
      { io: "pty", ptyCommand: "stty size; read line; stty size; cat; exit 4" },
      { size: { rows: 30, cols: 100 } },
    );
    await waitForOutput(begun, "30 100");
    begun.resize({ rows: 50, cols: 120 });
    await begun.write("go\n");
    await waitForOutput(begun, "50 120");
    await begun.closeStdin();
    expect((await begun.wait()).exit).toMatchObject({ reason: "exit", code: 4 });
  });

  test("commands that cannot be started", async () => {
    const supervisor = await realSupervisor();
    for (const argv of [["/nonexistent/command"], ["/etc/passwd"], ["/"]])
      await expect(supervisor.spawn({ io: "pipe", argv })).rejects.toMatchObject({ code: "SPAWN_FAILED" });
    await expect(
      supervisor.spawn({ io: "pty", argv: ["/bin/true"] }, { cwd: "/nonexistent" }),
    ).rejects.toMatchObject({ code: "SPAWN_FAILED" });
  });

  test("a stop of two hundred processes, some of them detached and ignoring TERM", async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3051");
    const script = `
      for i in $(seq 1 100); do sleep 3051 & done
      for i in $(seq 1 50); do setsid sleep 3051 & done
      (trap '' TERM; for i in $(seq 1 50); do sleep 3051 & done; wait) &
      echo ready; wait`;
    const begun = await supervisor.spawn(shellInput(script), { graceMs: 200 });
    await waitForOutput(begun, "ready");
    await begun.cancel({ actor: "test" });
    expect(await begun.wait()).toMatchObject({
      exit: { reason: "manual-cancel", actor: "test" },
      emptiness: "proven",
    });
    expect(await findProcessesOfRun(begun.runId)).toEqual([]);
  });

  test("three hundred members listed, and some of them signalled", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(
      shellInput("for i in $(seq 300); do sleep 3051 & done; echo ready; read line"),
    );
    await waitForOutput(begun, "ready");
    const members = await begun.members();
    expect(members).toHaveLength(301);
    const sleepers = members.flatMap(({ identity }) => (identity.pid === begun.rootPid ? [] : [identity]));
    expect(await begun.signal(sleepers, "SIGKILL")).toBe(300);
    await begun.closeStdin();
    expect((await begun.wait()).exit).toMatchObject({ reason: "exit" });
  });

  test("residue of every kind, swept and reported", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(
      shellInput("sleep 3051 & (env -i setsid sh -c 'sleep 3051 & sleep 3051' &); exit 3"),
      { graceMs: 100 },
    );
    expect(await begun.wait()).toMatchObject({
      exit: { reason: "ownership-escape", code: 3 },
      emptiness: "proven",
    });
  });

  test("a flood into a spool that keeps the newest", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(
      shellInput("head -c 20000000 /dev/zero; head -c 5000000 /dev/zero >&2"),
      {
        stdout: { boundBytes: 256 * 1024 },
        stderr: { boundBytes: 64 * 1024 },
      },
    );
    expect((await begun.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
    const { offset, bytes } = await begun.read("stdout", { offset: 19_999_990 });
    expect({ offset, length: bytes.length }).toEqual({ offset: 19_999_990, length: 10 });
  });

  test("a flood into a spool that holds the program back", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(shellInput("seq 1 400000"), {
      stdout: { policy: "back-pressure", boundBytes: 64 * 1024 },
    });
    const { stdout } = await readOutput(begun, { ack: true });
    expect(stdout).toBe(Array.from({ length: 400_000 }, (_, at) => `${at + 1}\n`).join(""));
    expect((await begun.wait()).exit).toMatchObject({ code: 0 });
  });

  test("owners that attach and disconnect", async () => {
    const home = await temporaryHome();
    let supervisor = await realSupervisor({ home, instanceId: "in_asan" });
    const { runId } = await supervisor.spawn(shellInput("cat; exit 9"));
    for (let round = 0; round < 5; round++) {
      await supervisor.run(runId)?.write(`round ${round}\n`);
      await supervisor.close({ leaveRuns: true });
      supervisor = await realSupervisor({ home, instanceId: "in_asan" });
      expect(await supervisor.recover()).toHaveLength(1);
    }
    const begun = supervisor.run(runId);
    await begun?.closeStdin();
    expect((await begun?.wait())?.exit).toMatchObject({ reason: "exit", code: 9 });
  });

  test("an anchor killed outright, a launcher that cleans up, a tree that is reaped", async () => {
    const home = await temporaryHome();
    const instanceDir = join(home, "instances", "in_asan");
    await mkdir(instanceDir, { recursive: true });
    const machine = { hostId: "h", bootId: "b", pidNamespace: "n", timeNamespace: null };
    await using host = await openNativeHost({
      home,
      instanceId: "in_asan",
      incarnation: "i",
      instanceDir,
      machine,
    });
    const link = await host.start(startSpec("run_a", ["sh", "-c", "sleep 3051 & wait"]));
    link.go();
    await started(link);
    const { anchor, root, boundary } = link.welcome;
    const [evidence] = await host.inspectProcesses([anchor, root]);
    for (const signal of ["SIGSTOP", "SIGKILL"]) process.kill(evidence?.parentPid ?? 0, signal);
    process.kill(anchor.pid, "SIGKILL");
    const cgroup =
      boundary.cgroup === null ? null : { path: boundary.cgroup, inode: boundary.cgroupInode ?? "" };
    const reaped = await host.reap({ root, cgroup, leaseId: null, graceMs: 50 });
    expect(reaped).toMatchObject({ verified: true, survivors: [] });

    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(shellInput("setsid sleep 3051 & echo ready; wait"));
    await waitForOutput(begun, "ready");
    process.kill((await supervisor.getRun(begun.runId))?.anchor?.pid ?? 0, "SIGKILL");
    expect((await begun.wait()).exit).toMatchObject({ reason: "lost" });
  });

  test("PID 1 of a container", async () => {
    const init = execute(sanitizedAnchor, ["init", "--", "sh", "-c", "(sleep 0.1 &); exit 3"]);
    await expect(init).rejects.toMatchObject({ code: 3 });
  });

  // An ordinary run has only the tests above.
  test.runIf(soak)("all tests of the protocol", async () => {
    const vitest = join(project, "node_modules/vitest/vitest.mjs");
    await execute(process.execPath, [vitest, "run", "test/system/anchor/protocol"], {
      cwd: project,
      env: process.env,
    });
  });
});

function started(
  link: Awaited<ReturnType<Awaited<ReturnType<typeof openNativeHost>>["start"]>>,
): Promise<void> {
  return new Promise((resolve) => {
    link.listen((event) => {
      if (event.type === "started") resolve();
    });
  });
}
