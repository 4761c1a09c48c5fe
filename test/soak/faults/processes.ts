import { ForegroundWork } from "../works/foreground.js";
import { endProcess } from "../../support/live-processes.js";
import { type Fault, suspendProcess } from "./fault.js";

const inForeground = (work: unknown): work is ForegroundWork => work instanceof ForegroundWork;

export const processFaults: readonly Fault[] = [
  {
    name: "SIGKILL gateway",
    weight: 3,
    async inject({ world, during }) {
      await world.killGateway();
      await during(300);
      await world.startGateway();
      return true;
    },
  },
  {
    name: "SIGSTOP gateway",
    weight: 3,
    inject: ({ world, during }) => suspendProcess(world.gateway, () => during(300)),
  },
  {
    name: "SIGKILL launcher",
    weight: 2,
    inject: ({ world }) => endProcess(world.launcher()),
  },
  {
    name: "SIGSTOP launcher",
    weight: 3,
    inject: ({ world, during }) => suspendProcess(world.launcher(), () => during(300)),
  },
  {
    name: "SIGKILL anchor",
    weight: 3,
    suits: (work) => work.anchor() !== null,
    async inject({ victim }) {
      victim?.allow({ reasons: ["lost", "signal"], short: true });
      return endProcess(victim?.anchor() ?? null);
    },
  },
  {
    name: "SIGSTOP anchor",
    weight: 3,
    suits: (work) => work.anchor() !== null,
    inject: ({ victim, during }) => suspendProcess(victim?.anchor() ?? null, () => during(300)),
  },
  {
    name: "SIGKILL command",
    weight: 3,
    suits: ({ kind }) => kind !== "turn",
    async inject({ victim }) {
      victim?.allow({ reasons: ["signal"], short: true });
      return endProcess(victim?.leader() ?? null);
    },
  },
  {
    name: "SIGSTOP command",
    weight: 3,
    suits: ({ kind }) => kind !== "turn",
    inject: ({ victim, during }) => suspendProcess(victim?.leader() ?? null, () => during(300)),
  },
  {
    name: "SIGKILL agent",
    weight: 6,
    suits: ({ kind }) => kind === "turn",
    async inject({ victim }) {
      victim?.allow({ reasons: ["interrupted"] });
      return endProcess(victim?.leader() ?? null);
    },
  },
  {
    name: "SIGSTOP agent",
    weight: 6,
    suits: ({ kind }) => kind === "turn",
    inject: ({ victim, during }) => suspendProcess(victim?.leader() ?? null, () => during(300)),
  },
  {
    name: "SIGKILL caller",
    weight: 6,
    suits: inForeground,
    async inject({ victim }) {
      if (!inForeground(victim)) return false;
      victim.callerKilled = true;
      // The gateway may learn of it after the command has ended.
      victim.allow({ reasons: ["manual-cancel", "owner-lost"], short: true });
      return endProcess(victim.caller());
    },
  },
  {
    name: "SIGSTOP caller",
    weight: 6,
    suits: inForeground,
    inject: async ({ victim, during }) =>
      inForeground(victim) && suspendProcess(victim.caller(), () => during(300)),
  },
  {
    name: "SIGKILL database",
    weight: 6,
    isPossible: ({ server }) => server !== null,
    async inject({ world: { server }, during }) {
      await server?.kill();
      await during(300);
      await server?.start();
      return true;
    },
  },
  {
    name: "SIGSTOP database",
    weight: 6,
    isPossible: ({ server }) => server !== null,
    async inject({ world: { server }, during }) {
      server?.pause();
      try {
        await during(500);
      } finally {
        server?.resume();
      }
      return true;
    },
  },
  {
    name: "network cut, request",
    weight: 6,
    isPossible: ({ proxy }) => proxy !== null,
    async inject({ world: { proxy }, random, during }) {
      proxy?.cut("request", random.below(4));
      await during(300);
      proxy?.mend();
      return true;
    },
  },
  {
    name: "network cut, answer",
    weight: 6,
    isPossible: ({ proxy }) => proxy !== null,
    async inject({ world: { proxy }, random, during }) {
      proxy?.cut("answer", random.below(4));
      await during(300);
      proxy?.mend();
      return true;
    },
  },
  {
    name: "network silent",
    weight: 6,
    isPossible: ({ proxy }) => proxy !== null,
    async inject({ world: { proxy }, during }) {
      proxy?.mute();
      await during(800);
      // The connections end, as after a network failure: bytes that were lost meanwhile cannot arrive any more.
      proxy?.cut("request", 0);
      proxy?.mend();
      return true;
    },
  },
];
