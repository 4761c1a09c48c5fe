import { expect, test } from "vitest";
import { MetricsRegistry } from "../../../src/gateway/monitoring/prometheus.js";

test("metrics are shown in the text format of Prometheus, in their order", async () => {
  const registry = new MetricsRegistry();
  const runs = registry.counter("runs_total", "runs");
  const ends = registry.counter("ends_total", "ends, by reason", "reason");
  registry.gauge("writable", "1: writable", () => 1);
  registry.gauges("open", "open runs, by state", "state", async () => new Map([["running", 2]]));
  const seconds = registry.histogram("seconds", "duration", [0.5, 1]);
  runs.add(1);
  runs.add(2);
  ends.add(0, "exit");
  ends.add(1, 'a"b\\c\nd');
  // A bound is inclusive.
  for (const value of [0.25, 0.5, 1, 3]) seconds.observe(value);
  expect(await registry.text()).toBe(`# HELP runs_total runs
# TYPE runs_total counter
runs_total 3

# HELP ends_total ends, by reason
# TYPE ends_total counter
ends_total{reason="exit"} 0
ends_total{reason="a\\"b\\\\c\\nd"} 1

# HELP writable 1: writable
# TYPE writable gauge
writable 1

# HELP open open runs, by state
# TYPE open gauge
open{state="running"} 2

# HELP seconds duration
# TYPE seconds histogram
seconds_bucket{le="0.5"} 2
seconds_bucket{le="1"} 3
seconds_bucket{le="+Inf"} 4
seconds_sum 4.75
seconds_count 4
`);
});
