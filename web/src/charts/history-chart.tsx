import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";

export interface Point {
  readonly at: number;
  readonly value: number;
}

interface HistoryChartProps {
  readonly title: string;
  /** In the order of their times. */
  readonly points: readonly Point[];
  readonly format: (value: number) => string;
  /** The smallest value at the upper end, so that noise around zero looks flat. */
  readonly atLeast?: number;
}

const WIDTH = 320;
const HEIGHT = 64;

/** A small line chart of one value over time. The value under the pointer, or the newest, is a number beside the title. */
export function HistoryChart({ title, points, format, atLeast = 1 }: HistoryChartProps) {
  const chart = useRef<SVGSVGElement>(null);
  const pointed = useSignal<number | null>(null);
  const last = points.at(-1);
  const first = points[0];
  if (last === undefined || first === undefined) return null;
  const top = Math.max(atLeast, ...points.map(({ value }) => value));
  const span = Math.max(1, last.at - first.at);
  const x = (point: Point): number => ((point.at - first.at) / span) * WIDTH;
  const y = (point: Point): number => HEIGHT - (point.value / top) * HEIGHT;
  const line = points.map((point) => `${x(point).toFixed(1)},${y(point).toFixed(1)}`).join(" ");
  const shown = (pointed.value === null ? undefined : points[pointed.value]) ?? last;
  const most = points.reduce((max, { value }) => Math.max(max, value), 0);
  const onMove = (event: PointerEvent): void => {
    const box = chart.current?.getBoundingClientRect();
    if (box === undefined) return;
    const at = first.at + ((event.clientX - box.left) / box.width) * span;
    const next = points.findIndex((point) => point.at >= at);
    pointed.value = next === -1 ? points.length - 1 : next;
  };
  return (
    <figure class="chart">
      <figcaption>
        <span>{title}</span>
        <span class="number">
          {pointed.value !== null && (
            <span class="quiet">{new Date(shown.at).toLocaleTimeString([], { timeStyle: "short" })} </span>
          )}
          <b>{format(shown.value)}</b>
        </span>
      </figcaption>
      <svg
        ref={chart}
        viewBox={`0 -2 ${WIDTH} ${HEIGHT + 4}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: now ${format(last.value)}, at most ${format(most)}`}
        onPointerMove={onMove}
        onPointerLeave={() => (pointed.value = null)}
      >
        <polygon class="chart-area" points={`0,${HEIGHT} ${line} ${WIDTH},${HEIGHT}`} />
        <polyline class="chart-line" points={line} />
      </svg>
    </figure>
  );
}
