interface SparklineProps {
  /** The description for screen readers. */
  readonly label: string;
  /** Oldest first. */
  readonly values: readonly number[];
  /** The value at the upper edge; a larger one raises the edge. */
  readonly max: number;
  /** The number of values over the whole width: a new line begins at the right. */
  readonly capacity: number;
}

const WIDTH = 100;
const HEIGHT = 24;

/** A line without axes, with its area. Takes the size of its place. */
export function Sparkline({ label, values, max, capacity }: SparklineProps) {
  const top = Math.max(max, ...values, Number.MIN_VALUE);
  const step = WIDTH / Math.max(1, capacity - 1);
  const left = WIDTH - (values.length - 1) * step;
  const points = values.map((value, at) => {
    const x = left + at * step;
    return `${x.toFixed(1)},${(HEIGHT - 1 - (value / top) * (HEIGHT - 2)).toFixed(1)}`;
  });
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {points.length > 1 && (
        <>
          <polygon points={`${left.toFixed(1)},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`} />
          <polyline points={points.join(" ")} />
        </>
      )}
    </svg>
  );
}
