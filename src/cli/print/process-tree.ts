import type { LiveProcesses } from "../../anchor/inspect/processes.js";

/** Processes with children below their parents, each with the branches that lead to it. `top`: the pid above all. */
export function orderAsTree(
  processes: LiveProcesses,
  top = 0,
): { readonly process: LiveProcesses[number]; readonly branches: string }[] {
  const pids = new Set(processes.map(({ identity }) => identity.pid));
  const children = new Map<number, LiveProcesses[number][]>();
  for (const process of processes) {
    // The parent of an adopted service's leader may belong to another run.
    const parent = pids.has(process.parentPid) ? process.parentPid : top;
    children.set(parent, [...(children.get(parent) ?? []), process]);
  }
  const below = (parent: number, indent: string): ReturnType<typeof orderAsTree> => {
    const nodes = children.get(parent) ?? [];
    // Removed, so that inconsistent evidence cannot lead to a cycle.
    children.delete(parent);
    return nodes.flatMap((process, at) => {
      const last = at === nodes.length - 1;
      return [
        { process, branches: `${indent}${last ? "└─" : "├─"}` },
        ...below(process.identity.pid, `${indent}${last ? "   " : "│  "}`),
      ];
    });
  };
  return below(top, "");
}
