import { dashboardDefaults } from "./defaults/dashboard.js";
import { gatewayDefaults } from "./defaults/gateway.js";
import { mcpDefaults } from "./defaults/mcp.js";
import { runDefaults } from "./defaults/runs.js";
import { sessionDefaults } from "./defaults/sessions.js";
import { storeDefaults } from "./defaults/store.js";
import { taskDefaults } from "./defaults/tasks.js";

/** Every default number of the product, with its reason. Milliseconds and bytes unless the name says otherwise. */
export const defaults = {
  ...runDefaults,
  ...storeDefaults,
  ...gatewayDefaults,
  ...dashboardDefaults,
  ...mcpDefaults,
  ...sessionDefaults,
  ...taskDefaults,
} as const;

/**
 * No-output limit for CLI agents: clamp(ratio × overall timeout, min, max), at least `floorMs`,
 * at most the timeout minus a second. A resumed agent has its context and answers sooner.
 */
export const watchdogProfiles = {
  fresh: { ratio: 0.8, minMs: 180_000, maxMs: 600_000 },
  resume: { ratio: 0.3, minMs: 60_000, maxMs: 180_000 },
} as const;
export const watchdogFloorMs = 1_000;
