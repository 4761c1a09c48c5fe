// Draws a recorded terminal as an SVG without scripts. Each text is shown from the frame in which it appears to the frame
// in which its row changes.

const CHARACTER_PX = 8.43;
const LINE_PX = 19;
const PADDING_PX = 16;
/** How long the last frame stays before the recording begins again. */
const END_MS = 6_000;

/** Colours of the terminal: the foreground, and the 16 of the palette that programs use here. */
const LIGHT = {
  ground: "#fbfbfa",
  line: "#d8d8d3",
  text: "#1d2023",
  dim: "#5c636b",
  colours: ["#1d2023", "#a32a24", "#23693a", "#7a5200", "#1f57ad", "#7c3a90", "#0f5f8c", "#5c636b"],
};
const DARK = {
  ground: "#16181b",
  line: "#343940",
  text: "#e6e8ea",
  dim: "#a0a8b1",
  colours: ["#e6e8ea", "#f49b92", "#82cf98", "#ecc06a", "#86b4f7", "#d6a3e8", "#74c2ee", "#a0a8b1"],
};

/** The rows of the screen, each a list of texts with one look. */
export function readScreen(terminal) {
  const { active } = terminal.buffer;
  return Array.from({ length: terminal.rows }, (_, at) => readRow(active.getLine(active.baseY + at)));
}

function readRow(line) {
  const spans = [];
  for (let at = 0; at < (line?.length ?? 0); at++) {
    const cell = line.getCell(at);
    const look = [
      cell.isBold() ? "b" : "",
      cell.isDim() ? "d" : "",
      cell.isFgPalette() ? `c${cell.getFgColor() % 8}` : "",
    ]
      .filter((each) => each !== "")
      .join(" ");
    const text = cell.getChars() || " ";
    const previous = spans.at(-1);
    if (previous?.look === look) previous.text += text;
    else spans.push({ look, text });
  }
  while (spans.length > 0) {
    const end = spans.at(-1);
    end.text = end.text.trimEnd();
    if (end.text !== "") break;
    spans.pop();
  }
  return spans;
}

/** `rename`: applied to each text. */
export function animatedSvg({ frames, rename, commands, columns, rows }) {
  const total = frames.at(-1).at + END_MS;
  const shown = intervals(frames, rename);
  const [width, height] = [columns * CHARACTER_PX + 2 * PADDING_PX, rows * LINE_PX + 2 * PADDING_PX].map(
    Math.round,
  );
  const texts = shown.map(({ row, markup, from, to }) => {
    const y = PADDING_PX + (row + 0.75) * LINE_PX;
    return `<text x="${PADDING_PX}" y="${y}">${markup}${animation(from, to, total)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title what">
<title id="title">Holdfast in a terminal</title>
<desc id="what">${escape(commands.map((command) => `$ ${command}`).join("\n"))}</desc>
<style>
${palette(LIGHT)}
@media (prefers-color-scheme: dark) {
${palette(DARK)}
}
text { font: 14px ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; white-space: pre; visibility: hidden; }
.b { font-weight: bold; }
</style>
<rect class="ground" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
${texts.join("\n")}
</svg>
`;
}

/** When each text of each row is shown. */
function intervals(frames, rename) {
  const shown = [];
  const open = new Map();
  for (const [index, { at, rows }] of frames.entries()) {
    const until = frames[index + 1]?.at ?? null;
    // A frame that is replaced at once was not seen.
    if (until === at) continue;
    for (const [row, spans] of rows.entries()) {
      const markup = spans.map((span) => spanMarkup({ ...span, text: rename(span.text) })).join("");
      const before = open.get(row);
      if (before?.markup === markup) continue;
      if (before !== undefined) before.to = at;
      open.delete(row);
      if (markup === "") continue;
      const entry = { row, markup, from: at, to: null };
      open.set(row, entry);
      shown.push(entry);
    }
  }
  return shown;
}

function spanMarkup({ look, text }) {
  return look === "" ? escape(text) : `<tspan class="${look}">${escape(text)}</tspan>`;
}

function animation(from, to, total) {
  const [begin, end] = [from, to ?? total].map((ms) => Math.min(ms / total, 1).toFixed(4));
  const steps = [
    ["0", "hidden"],
    ...(Number(begin) > 0 ? [[begin, "visible"]] : []),
    ...(Number(end) < 1 ? [[end, "hidden"]] : []),
  ];
  if (Number(begin) === 0) steps[0] = ["0", "visible"];
  const [times, values] = [0, 1].map((at) => steps.map((step) => step[at]).join(";"));
  return `<animate attributeName="visibility" calcMode="discrete" dur="${(total / 1_000).toFixed(1)}s" repeatCount="indefinite" keyTimes="${times}" values="${values}"/>`;
}

function palette({ ground, line, text, dim, colours }) {
  return [
    `.ground { fill: ${ground}; stroke: ${line}; }`,
    `text { fill: ${text}; }`,
    ...colours.map((colour, at) => `.c${at} { fill: ${colour}; }`),
    `.d { fill: ${dim}; }`,
  ].join("\n");
}

function escape(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
