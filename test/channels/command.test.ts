import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { commandChannel } from "../../src/channels/command.js";
import { desktopChannel, desktopCommand } from "../../src/channels/desktop.js";
import type { Supervisor } from "../../src/supervisor/api.js";
import {
  channelEntry,
  deliveryFailure,
  NEVER_ABORTED,
  sampleNotification,
} from "../support/http-receiver.js";
import { findProcessesOfRun, plantLookalike, realSupervisor } from "../support/supervisor/real-supervisor.js";
import { waitFor } from "../support/wait-for.js";

const EVIL = "$(touch evil) `touch evil` '; touch evil; \" \\ -rf --help % ${IFS}\n\u0000\u001b[2J";
const hostile = sampleNotification({
  text: EVIL,
  label: `--${EVIL}`,
  summary: EVIL,
  id: "task-terminal:tsk_9",
});

let directory = "";
let supervisor: Supervisor;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "hf-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  supervisor = await realSupervisor();
});

const command = (script: string, fields: Readonly<Record<string, unknown>> = {}) =>
  commandChannel(
    "pager",
    channelEntry("command", { argv: ["/bin/sh", "-c", script, directory], ...fields }),
    supervisor,
  );

describe("a command", () => {
  test("gets the notification on stdin and in its environment without a shell", async () => {
    plantLookalike("sleep", "3081");
    const channel = command(
      'cd "$0" && cat > stdin && env -0 > env && tr "\\0" "\\n" < /proc/$$/cmdline > argv',
    );
    const runId = await channel.deliver(hostile, "ops", NEVER_ABORTED);
    expect((await readdir(directory)).toSorted()).toEqual(["argv", "env", "stdin"]);
    const read = (name: string) => readFile(join(directory, name), "utf8");
    expect(JSON.parse(await read("stdin"))).toMatchObject({
      type: "task.terminal",
      data: { id: "task-terminal:tsk_9", text: EVIL, address: "ops" },
    });
    const seen = EVIL.replace("\0", "\uFFFD");
    expect((await read("env")).split("\0")).toEqual(
      expect.arrayContaining([
        "HOLDFAST_NOTIFICATION_ID=task-terminal:tsk_9",
        "HOLDFAST_NOTIFICATION_STATUS=succeeded",
        "HOLDFAST_NOTIFICATION_ADDRESS=ops",
        "HOLDFAST_NOTIFICATION_ERROR=",
        `HOLDFAST_NOTIFICATION_TEXT=${seen}`,
      ]),
    );
    expect(await read("argv")).not.toContain("evil");
    // A run like any other, to be found by its channel.
    expect(await supervisor.getRun(runId ?? "")).toMatchObject({
      state: "exited",
      emptiness: "proven",
      labels: { channel: "pager" },
      backendId: "channel",
    });
  });

  test("that ignores its stdin, or leaves processes, has delivered when it exits with 0", async () => {
    const runId = await command("sleep 3082 & exit 0").deliver(
      sampleNotification({ summary: "x".repeat(1_000_000) }),
      null,
      NEVER_ABORTED,
    );
    expect(await findProcessesOfRun(runId ?? "")).toEqual([]);
  });

  test("that fails is reported without secrets and escapes, and can be retried", async () => {
    const failure = await deliveryFailure(
      command(String.raw`printf 'no \033[31mway: password=hush\n' >&2; exit 7`).deliver(
        sampleNotification(),
        null,
        NEVER_ABORTED,
      ),
    );
    expect(failure.message).toMatch(/^the program exited with 7: no way: password=\*\*\* \(run_\w+\)$/);
    expect(failure.permanent).toBe(false);
    const hidden = command(String.raw`printf 'pass\033[31mword=hu\033[0msh' >&2; exit 7`);
    expect(
      (await deliveryFailure(hidden.deliver(sampleNotification(), null, NEVER_ABORTED))).message,
    ).not.toMatch(/hu.?sh/);
    const killed = await deliveryFailure(
      command("kill -9 $$").deliver(sampleNotification(), null, NEVER_ABORTED),
    );
    expect(killed.message).toMatch(/^the program was ended by SIGKILL \(run_\w+\)$/);
  });

  test("that hangs is stopped with its processes at the timeout or on abort", async () => {
    plantLookalike("sleep", "3083");
    const hanging = command("setsid sleep 3083 & sleep 3083", { "timeout-ms": 300 });
    const late = await deliveryFailure(hanging.deliver(sampleNotification(), null, NEVER_ABORTED));
    expect(late.message).toMatch(/^the program was stopped after its timeout of 300 ms \(run_\w+\)$/);
    expect(late.permanent).toBe(false);
    const giveUp = new AbortController();
    const waiting = deliveryFailure(command("sleep 3083").deliver(sampleNotification(), null, giveUp.signal));
    await waitFor(
      "the program runs",
      () => supervisor.runs().some(({ state }) => state === "running"),
      15_000,
    );
    giveUp.abort();
    expect((await waiting).message).toMatch(/^the program was stopped \(manual-cancel\) \(run_\w+\)$/);
    for (const { runId } of await supervisor.listRuns()) expect(await findProcessesOfRun(runId)).toEqual([]);
  });

  test("that does not exist can be retried", async () => {
    const none = commandChannel("pager", channelEntry("command", { argv: ["/no/such/pager"] }), supervisor);
    const failure = await deliveryFailure(none.deliver(sampleNotification(), null, NEVER_ABORTED));
    expect(failure.message).toContain("the program was not started: ");
    expect(failure.message).toContain("/no/such/pager");
    expect(failure.permanent).toBe(false);
  });
});

describe("the desktop", () => {
  test("gets text through notify-send that is not interpreted as markup", async () => {
    const program = join(directory, "notify-send");
    await writeFile(program, `#!/bin/sh\nprintf '%s\\0' "$@" > "${directory}/said"\n`);
    await chmod(program, 0o755);
    const spawner = {
      spawn: (...[input, options]: Parameters<Supervisor["spawn"]>) =>
        supervisor.spawn(input, { ...options, env: { ...options?.env, PATH: `${directory}:/usr/bin:/bin` } }),
    };
    const text = "<b>50% & more</b> \\n $(id) \u001b[2J\nsecond";
    const channel = desktopChannel("me", channelEntry("desktop", {}), spawner, "linux");
    await channel.deliver(sampleNotification({ label: "--icon=x", text }), null, NEVER_ABORTED);
    const said = (await readFile(join(directory, "said"), "utf8")).split("\0").slice(0, -1);
    expect(said).toEqual([
      "--app-name=Holdfast",
      "--",
      "Holdfast: --icon=x",
      "&lt;b&gt;50% &amp; more&lt;/b&gt; \\\\n $(id) \nsecond",
    ]);
  });

  test("of other systems gets the text as an argument or in the environment, never in a script", () => {
    const [program, ...words] = desktopCommand(hostile, "darwin");
    expect(program).toBe("/usr/bin/osascript");
    const script = words.slice(0, -2);
    expect(script.join("\n")).not.toContain("evil");
    expect(words.at(-2)).toMatch(/^Holdfast: /);
    expect(desktopCommand(hostile, "win32").join("\n")).not.toContain("evil");
    expect(desktopCommand(hostile, "win32").join("\n")).toContain("$env:HOLDFAST_NOTIFICATION_TEXT");
  });
});
