import type { Fault } from "./fault.js";
import { processFaults } from "./processes.js";
import { storageFaults } from "./storage.js";
import { surroundingFaults } from "./surroundings.js";

export const faults: readonly Fault[] = [...processFaults, ...storageFaults, ...surroundingFaults];
