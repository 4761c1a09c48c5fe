import type { TreeRow } from "../live/run-usage.js";
import { formatBytes } from "./bytes.js";

/** A process in a tree: its command, CPU and memory. */
export function ProcessRow({ row: { process, depth } }: { readonly row: TreeRow }) {
  const { pid, command, cpuPercent, rssKb, ports } = process;
  return (
    <div class="process-row">
      <span
        class="process-command"
        style={{ paddingLeft: `${Math.min(depth, 12) * 1.1}rem` }}
        title={command}
      >
        <span class="quiet number">{pid}</span> <bdi>{command}</bdi>
        {ports.length > 0 && <span class="quiet number"> :{ports.join(" :")}</span>}
      </span>
      <span class="process-number">{formatPercent(cpuPercent)}</span>
      <span class="process-number">{formatBytes(rssKb * 1024)}</span>
    </div>
  );
}

/** Null: not known yet. 100 % is one CPU. */
export function formatPercent(percent: number | null): string {
  if (percent === null) return "–";
  return `${percent >= 10 || percent === 0 ? Math.round(percent) : percent.toFixed(1)} %`;
}
