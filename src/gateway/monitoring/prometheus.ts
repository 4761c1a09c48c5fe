/*
 * Metrics in the text format of Prometheus 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/). A metric
 * has at most one label.
 */

interface Sample {
  readonly suffix?: string;
  /** Null: a sample without a label. */
  readonly label: { readonly name: string; readonly value: string } | null;
  readonly value: number;
}

/** A metric as it is shown. */
interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly samples: () => Promise<readonly Sample[]>;
}

export interface Counter {
  /** `label`: the value of the label, for a counter that has one. */
  add(count: number, label?: string): void;
}

export interface Histogram {
  observe(value: number): void;
}

/** The label value of a metric without a label. */
const NO_LABEL = "";

/** Metrics, shown in the order in which they were added. */
export class MetricsRegistry {
  readonly #metrics: Metric[] = [];

  /** `label`: the name of the label. A counter without one is shown before its first event. */
  counter(name: string, help: string, label: string | null = null): Counter {
    const counts = new Map<string, number>(label === null ? [[NO_LABEL, 0]] : []);
    this.#metrics.push({ name, help, type: "counter", samples: async () => samplesOf(counts, label) });
    return {
      add: (count, value = NO_LABEL) => void counts.set(value, (counts.get(value) ?? 0) + count),
    };
  }

  /** A value that is read at each scrape. */
  gauge(name: string, help: string, read: () => number | Promise<number>): void {
    const samples = async (): Promise<readonly Sample[]> => [{ label: null, value: await read() }];
    this.#metrics.push({ name, help, type: "gauge", samples });
  }

  /** Values by label that are read at each scrape. */
  gauges(name: string, help: string, label: string, read: () => Promise<ReadonlyMap<string, number>>): void {
    const samples = async (): Promise<readonly Sample[]> => samplesOf(await read(), label);
    this.#metrics.push({ name, help, type: "gauge", samples });
  }

  /** `bounds`: the inclusive upper bounds of the buckets, ascending. */
  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    /** Counts per bucket, not cumulative. The last bucket is for values above all bounds. */
    const counts = [...bounds.map(() => 0), 0];
    let sum = 0;
    const samples = async (): Promise<readonly Sample[]> => {
      let total = 0;
      const buckets = [...bounds.map(String), "+Inf"].map((bound, at): Sample => {
        total += counts[at] ?? 0;
        return { suffix: "_bucket", label: { name: "le", value: bound }, value: total };
      });
      const ofAll = { label: null };
      return [
        ...buckets,
        { ...ofAll, suffix: "_sum", value: sum },
        { ...ofAll, suffix: "_count", value: total },
      ];
    };
    this.#metrics.push({ name, help, type: "histogram", samples });
    return {
      observe: (value) => {
        const found = bounds.findIndex((bound) => value <= bound);
        const at = found === -1 ? bounds.length : found;
        counts[at] = (counts[at] ?? 0) + 1;
        sum += value;
      },
    };
  }

  async text(): Promise<string> {
    return (await Promise.all(this.#metrics.map(metricText))).join("\n");
  }
}

function samplesOf(values: ReadonlyMap<string, number>, label: string | null): readonly Sample[] {
  return Array.from(values, ([value, count]) => ({
    label: label === null ? null : { name: label, value },
    value: count,
  }));
}

async function metricText({ name, help, type, samples }: Metric): Promise<string> {
  const lines = (await samples()).map(({ suffix = "", label, value }) => {
    const labels = label === null ? "" : `{${label.name}="${escapeLabel(label.value)}"}`;
    return `${name}${suffix}${labels} ${value}\n`;
  });
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

function escapeLabel(value: string): string {
  return value
    .replaceAll("\\", "\\\\")
    .replaceAll('"', String.raw`\"`)
    .replaceAll("\n", String.raw`\n`);
}
