import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { Socket } from "node:net";
import { join } from "node:path";
import { Duplex } from "node:stream";
import { onTestFinished } from "vitest";
import type { AnchorHost, AnchorLink } from "../../../src/anchor/host-interface.js";
import { openNativeHost } from "../../../src/anchor/native-host.js";
import { messages } from "../../../src/anchor/protocol/messages.js";
import { acquireInstanceLock } from "../../../src/home/instance-lock.js";
import { readMachineIdentity } from "../../../src/home/machine-identity.js";
import { openStateDirectory } from "../../../src/store/open-state-directory.js";
import type { RunStore } from "../../../src/store/runs/contract.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import type { Supervisor } from "../../../src/supervisor/api.js";
import { createSupervisor } from "../../../src/supervisor/supervisor.js";
import type { SpawnHome, SpawnStep } from "./spawn-fixture.js";

/** Called during a spawn, before anything else happens in this process. */
type Interruption = (step: Exclude<SpawnStep, "inserted"> | "prepared", runId: string) => void;

/** By run id: START is intercepted on the wire, where only the id identifies the run. */
const interruptions = new Map<string, Interruption>();

/** A supervisor with real parts that announces each step of a spawn. */
export async function interruptedSupervisor(home: SpawnHome, interrupt: Interruption): Promise<Supervisor> {
  const { storePath } = await openStateDirectory(home.path);
  const instanceDir = join(home.path, "instances", home.instanceId);
  await mkdir(instanceDir, { recursive: true, mode: 0o700 });
  const lock = await acquireInstanceLock(instanceDir);
  const machine = await readMachineIdentity(home.path);
  const store = await openSqliteStore({ path: storePath, eventsKept: 1000, busyMs: 5000 });
  const names = { home: home.path, instanceId: home.instanceId };
  const host = await openNativeHost({ ...names, instanceDir, incarnation: "interrupted", machine });
  const supervisor = createSupervisor({
    ...names,
    store: interruptingStore(store, interrupt),
    host: interruptingHost(host, interrupt),
    onClosed: async () => lock[Symbol.asyncDispose](),
  });
  onTestFinished(() => supervisor.close());
  return supervisor;
}

function interruptingStore(store: RunStore, interrupt: Interruption): RunStore {
  return new Proxy(store, {
    get(target, name) {
      if (name === "insertRun")
        return async (...args: Parameters<RunStore["insertRun"]>) => {
          const lease = await target.insertRun(...args);
          if (args[3] !== undefined) interrupt("committed", lease.runId);
          return lease;
        };
      return boundProperty(target, name);
    },
  });
}

function interruptingHost(host: AnchorHost, interrupt: Interruption): AnchorHost {
  return new Proxy(host, {
    get(target, name) {
      if (name !== "start") return boundProperty(target, name);
      return async (...[spec]: Parameters<AnchorHost["start"]>) => {
        interruptions.set(spec.runId, interrupt);
        interrupt("prepared", spec.runId);
        const link = await target.start(spec);
        interrupt("welcomed", spec.runId);
        return interruptingLink(link, spec.runId, interrupt);
      };
    },
  });
}

function interruptingLink(link: AnchorLink, runId: string, interrupt: Interruption): AnchorLink {
  return new Proxy(link, {
    get(target, name) {
      if (name === "go")
        return () => {
          target.go();
          interrupt("gone", runId);
        };
      if (name === "listen")
        return (listener: Parameters<AnchorLink["listen"]>[0]) =>
          target.listen((event) => {
            if (event.type === "started") interrupt("heard", runId);
            listener(event);
          });
      return boundProperty(target, name);
    },
  });
}

function boundProperty(target: object, name: string | symbol): unknown {
  const value: unknown = Reflect.get(target, name, target);
  return typeof value === "function" ? (value.bind(target) as unknown) : value;
}

/** The host sends START itself: it is intercepted at the socket, and announced when the kernel has it. */
export function interceptStarts(): void {
  const write = Reflect.get(Duplex.prototype, "write") as (...args: unknown[]) => boolean;
  const value = function (this: Socket, chunk: unknown, ...rest: unknown[]): boolean {
    if (!Buffer.isBuffer(chunk) || chunk[4] !== messages.start.type) return write.call(this, chunk, ...rest);
    const runId = chunk.toString("latin1", 10, 10 + chunk.readUInt32LE(6));
    return write.call(this, chunk, () => interruptions.get(runId)?.("asked", runId));
  };
  Object.defineProperty(Socket.prototype, "write", { configurable: true, writable: true, value });
  onTestFinished(() => {
    // The method of the stream's prototype applies again.
    Reflect.deleteProperty(Socket.prototype, "write");
  });
}

export function parentOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

/** The anchor of a run that has not answered yet: the child of the launcher that has the run id in its arguments. */
export function findAnchorOf(runId: string, launcher: number): number | null {
  const until = performance.now() + 50;
  while (performance.now() < until) {
    const children = readFileSync(`/proc/${launcher}/task/${launcher}/children`, "utf8").trim();
    for (const pid of children.split(" ").filter((word) => word !== "")) {
      try {
        if (readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(`\0${runId}\0`)) return Number(pid);
      } catch {
        // Gone meanwhile.
      }
    }
  }
  return null;
}
