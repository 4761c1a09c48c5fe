import type { Random } from "../../simulation/random.js";
import type { World } from "../world/world.js";
import { ServiceWork, TaskWork, TerminalWork } from "./executed.js";
import { ForegroundWork } from "./foreground.js";
import { TurnWork } from "./turn.js";
import type { Work, WorkKind } from "./work.js";

const kinds = {
  run: ForegroundWork,
  PTY: TerminalWork,
  service: ServiceWork,
  turn: TurnWork,
  task: TaskWork,
} as const satisfies Record<WorkKind, unknown>;

export function newWork(kind: WorkKind, world: World, random: Random, token: string): Work {
  return new kinds[kind](world, random, token);
}
