/** A plot with logarithmic axes as an SVG that is readable on light and on dark pages. Each panel has its own lines. */
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [440, 360, 56, 16, 40, 44];
/** The same hue in both, lighter on dark. Markers and line styles differ as well. */
const COLOURS = [
  ["#0969da", "#58a6ff"],
  ["#bc4c00", "#f0883e"],
  ["#1a7f37", "#3fb950"],
  ["#8250df", "#bc8cff"],
  ["#bf3989", "#f778ba"],
  ["#57606a", "#9ea7b3"],
  ["#9a6700", "#d29922"],
];
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "1 5", "12 5", "4 2 1 2 1 2"];

/** `panels`: each { title, x, y, lines: [{ name, points: [[x, y], …] }] }. */
export function logPlot(panels, description) {
  const legendRows = Math.max(...panels.map(({ lines }) => lines.length));
  const height = HEIGHT + legendRows * 18 + 10;
  const width = panels.length * WIDTH;
  const rules = (which) => COLOURS.map((pair, at) => `.c${at} { color: ${pair[which]}; }`).join(" ");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(description)}">
<style>
text { font: 12px sans-serif; fill: #24292f; } .title { font-weight: bold; } .grid { stroke: #d0d7de; } .axis { stroke: #57606a; }
path.line { fill: none; stroke: currentColor; stroke-width: 2; } circle { fill: currentColor; } ${rules(0)}
@media (prefers-color-scheme: dark) { text { fill: #d0d7de; } .grid { stroke: #373e47; } .axis { stroke: #8b949e; } ${rules(1)} }
</style>
${panels.map((panel, at) => `<g transform="translate(${at * WIDTH} 0)">\n${drawPanel(panel)}\n</g>`).join("\n")}
</svg>
`;
}

function drawPanel({ title, x, y, lines }) {
  const points = lines.flatMap((line) => line.points);
  const across = scale(
    points.map(([value]) => value),
    LEFT,
    WIDTH - RIGHT,
  );
  const up = scale(
    points.map(([, value]) => value),
    HEIGHT - BOTTOM,
    TOP,
  );
  const grid = [
    ...across.decades.map(
      (value) =>
        `<path class="grid" d="M${across.at(value)} ${TOP}V${HEIGHT - BOTTOM}"/><text x="${across.at(value)}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${label(value)}</text>`,
    ),
    ...up.decades.map(
      (value) =>
        `<path class="grid" d="M${LEFT} ${up.at(value)}H${WIDTH - RIGHT}"/><text x="${LEFT - 6}" y="${up.at(value) + 4}" text-anchor="end">${label(value)}</text>`,
    ),
  ];
  const drawn = lines.map((line, at) => {
    const path = line.points.map(([px, py]) => `${across.at(px)} ${up.at(py)}`);
    const dots = path.map((point) => {
      const [cx, cy] = point.split(" ");
      return `<circle cx="${cx}" cy="${cy}" r="3"/>`;
    });
    const legend = HEIGHT + 8 + at * 18;
    const style = `class="line" stroke-dasharray="${DASHES[at % DASHES.length]}"`;
    return `<g class="c${at % COLOURS.length}"><path ${style} d="M${path.join("L")}"/>${dots.join("")}<path ${style} d="M${LEFT} ${legend - 4}h28"/></g><text x="${LEFT + 36}" y="${legend}">${escaped(line.name)}</text>`;
  });
  return [
    `<text class="title" x="${LEFT}" y="20">${escaped(title)}</text>`,
    `<text x="${WIDTH - RIGHT}" y="${HEIGHT - 10}" text-anchor="end">${escaped(x)}</text>`,
    `<text x="${LEFT}" y="34">${escaped(y)}</text>`,
    ...grid,
    `<path class="axis" fill="none" d="M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}"/>`,
    ...drawn,
  ].join("\n");
}

/** Whole decades around the values, and where a value is between two coordinates. */
function scale(values, from, to) {
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))));
  const decades = Array.from({ length: high - low + 1 }, (_, at) => 10 ** (low + at));
  const at = (value) => Number((from + ((Math.log10(value) - low) / (high - low)) * (to - from)).toFixed(1));
  return { decades, at };
}

function label(value) {
  return value >= 1_000 ? value.toLocaleString("en-US") : String(Number(value.toPrecision(1)));
}

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
