import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, readlink } from "node:fs/promises";
import { expect, test } from "vitest";
import type { CommandInput, Run, Supervisor } from "../../../src/supervisor/api.js";
import { plantLookalike, realSupervisor, waitForOutput } from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const WAITING = "echo ready; exec sleep 3031";

function shell(io: "pipe" | "pty", script: string): CommandInput {
  const argv = ["/bin/sh", "-c", script];
  return io === "pipe" ? { io, argv } : { io, argv };
}

/** The targets of a process's descriptors, as in /proc: `pipe:[17]`, `socket:[4]`, `/dev/pts/3`. */
async function descriptors(pid: number | "self"): Promise<Map<number, string>> {
  const directory = `/proc/${pid}/fd`;
  const found = new Map<number, string>();
  for (const name of await readdir(directory)) {
    // The descriptor that reads the listing is closed by now.
    const target = await readlink(`${directory}/${name}`).catch(() => null);
    if (target !== null) found.set(Number(name), target);
  }
  return found;
}

/** Only the targets that connect processes: two processes that show the same one share it. */
async function connectedDescriptors(pid: number | "self"): Promise<Set<string>> {
  const all = [...(await descriptors(pid)).values()];
  return new Set(all.filter((target) => /^(?:pipe|socket):\[|^\/dev\/pts\//.test(target)));
}

async function parentOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

async function anchorOf(supervisor: Supervisor, { runId }: Run): Promise<number> {
  return (await supervisor.getRun(runId))?.anchor?.pid ?? expect.fail(`no anchor of ${runId}`);
}

async function startSeveral(supervisor: Supervisor): Promise<{ run: Run; io: "pipe" | "pty" }[]> {
  return Promise.all(
    (["pipe", "pty", "pipe", "pty", "pty", "pipe"] as const).map(async (io) => {
      const run = await supervisor.spawn(shell(io, WAITING));
      await waitForOutput(run, "ready");
      return { run, io };
    }),
  );
}

test("a run has only its own three descriptors, and shares none with another run or the supervisor", async () => {
  const supervisor = await realSupervisor();
  plantLookalike("sleep", "3031");
  const seen = new Map<string, string>();
  const ours = await connectedDescriptors("self");
  for (const { run, io } of await startSeveral(supervisor)) {
    // The program's loader may still have a library open.
    const held = await waitFor("three descriptors", async () => {
      const found = await descriptors(run.rootPid ?? 0);
      return found.size === 3 && found;
    });
    expect(new Set(held.keys()), run.runId).toEqual(new Set([0, 1, 2]));
    const targets = new Set(held.values());
    for (const target of targets) {
      expect(target).toMatch(io === "pty" ? /^\/dev\/pts\/\d+$/ : /^pipe:\[\d+\]$/);
      expect(seen.get(target), `${target} of ${run.runId}`).toBeUndefined();
      expect(ours.has(target), `${target} is open in the supervisor too`).toBe(false);
      seen.set(target, run.runId);
    }
    expect(targets.size).toBe(io === "pty" ? 1 : 3);
  }
});

test("an anchor shares no descriptor with the anchor of another run", async () => {
  const supervisor = await realSupervisor();
  const runs = await startSeveral(supervisor);
  const anchors = await Promise.all(runs.map(({ run }) => anchorOf(supervisor, run)));
  // All anchors have the inherited ones; the last test is about those.
  const inherited = await connectedDescriptors(await parentOf(anchors[0] ?? 0));
  const holders = new Map<string, number>();
  for (const anchor of anchors)
    for (const target of await connectedDescriptors(anchor))
      if (!inherited.has(target)) holders.set(target, (holders.get(target) ?? 0) + 1);
  expect(holders.size).toBeGreaterThanOrEqual(runs.length);
  expect([...holders].filter(([, count]) => count > 1)).toEqual([]);
});

test("no other process holds the terminal of a run that has ended", async () => {
  const supervisor = await realSupervisor();
  const [ending, , other] = await Promise.all([
    supervisor.spawn(shell("pty", "echo ready; read line")),
    supervisor.spawn({ io: "pipe", argv: ["sleep", "3031"] }),
    supervisor.spawn(shell("pty", WAITING)),
  ]);
  await Promise.all([waitForOutput(ending, "ready"), waitForOutput(other, "ready")]);
  const [terminal] = await connectedDescriptors(ending.rootPid ?? 0);
  await ending.write("go\n");
  await ending.wait();
  const anchor = await anchorOf(supervisor, other);
  for (const pid of [other.rootPid ?? 0, anchor, await parentOf(anchor)])
    expect((await connectedDescriptors(pid)).has(terminal ?? ""), `${terminal} in ${pid}`).toBe(false);
  expect(other.state).toBe("running");
});

test("launcher, anchor and run inherit no descriptor of the supervisor's parent", async () => {
  const supervisor = await realSupervisor();
  // With a gap below the high ones: closing "all from 3 up to the first that is not open" would miss them.
  const script = `
    import { openSupervisor } from "${new URL("../../../dist/index.js", import.meta.url).href}";
    const supervisor = await openSupervisor({ home: ${JSON.stringify(supervisor.home)} });
    const run = await supervisor.spawn({ io: "pipe", argv: ["sleep", "3031"] });
    console.log(run.rootPid);
    process.stdin.on("end", () => supervisor.close()).resume();`;
  const open = `exec 9>"$1/nine" 60>"$1/sixty"; exec "$0" --input-type=module -e "$2"`;
  const child = spawn("bash", ["-c", open, process.execPath, supervisor.home, script], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const closed = once(child, "close");
  try {
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    const root = Number(line.toString());
    const anchor = await parentOf(root);
    const launcher = await parentOf(anchor);
    for (const [name, pid] of Object.entries({ root, anchor, launcher })) {
      const held = [...(await descriptors(pid)).values()];
      expect(
        held.filter((target) => /\/(?:nine|sixty)$/.test(target)),
        name,
      ).toEqual([]);
    }
  } finally {
    child.stdin.end();
    await closed;
  }
});

// Linux enlarges the table of a process with threads only after an RCU grace period: Node waited 10 ms twice at its start.
test("a command has room for 256 descriptors when it starts, from a new anchor, a warm one and in a terminal", async () => {
  const supervisor = await realSupervisor();
  const room = async (io: "pipe" | "pty"): Promise<number> => {
    const argv = ["/bin/sleep", "3031"];
    const run = await supervisor.spawn(io === "pipe" ? { io, argv } : { io, argv });
    const status = await waitFor("the command is executed", async () => {
      const text = await readFile(`/proc/${run.rootPid ?? 0}/status`, "utf8");
      return text.startsWith("Name:\tsleep") && text;
    });
    return Number(/^FDSize:\s+(\d+)$/m.exec(status)?.[1]);
  };
  for (const io of ["pipe", "pipe", "pipe", "pty"] as const) expect(await room(io)).toBe(256);
});
