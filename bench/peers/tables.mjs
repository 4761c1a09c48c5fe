import { markdownTable, writeBlock } from "../support/marked-block.mjs";

const ARTISTS = [
  "in the background",
  "`setsid`",
  "double fork",
  "double fork without environment",
  "ignores TERM",
  "starts another at TERM",
];

/** With more load than this, times that were measured one after the other cannot be compared well. */
const QUIET_LOAD = 2;

/** The full tables, and a shorter one for the README. `measured` and `acp`: by name. */
export function tables(measured, acp, { date, machine, load, missing, idle }) {
  const left = Object.entries(missing).map(([name, why]) => `${name} (${why})`);
  const isQuiet = Number(load) < QUIET_LOAD;
  const about = `Measured on ${date}: ${machine}, load average ${load} before the start${isQuiet ? "" : " (other programs used the machine, so times are longer than on an idle one and vary)"}.${left.length > 0 ? ` Not compared: ${left.join("; ")}.` : ""}`;
  const times = [
    "submit `true`, learn its exit code, ms",
    ...Object.values(measured).map(({ submitMs }) => (submitMs === undefined ? "-" : digits(submitMs.p50))),
  ];
  return {
    full: [
      about,
      markdownTable(
        [
          "",
          "submit `true` and learn its exit code, ms p50 / p99",
          "… per second, 4 at once",
          "stop the tree, ms",
          "left of 6",
          "manager, MB",
          `per idle job of ${idle}, kB`,
        ],
        Object.entries(measured).map(([name, each]) => [
          name,
          each.submitMs === undefined ? "-" : `${digits(each.submitMs.p50)} / ${digits(each.submitMs.p99)}`,
          number(each.perSecond, 0),
          number(each.stopMs, 0),
          each.survivors === undefined ? "-" : survivorsText(each.survivors),
          each.managerKb === 0 ? "-" : number(each.managerKb / 1_024, 1),
          number(each.idleKb, 0),
        ]),
      ),
      markdownTable(
        ["after `kill -9` of", "the job", "lines of its output that can be read", "its exit code"],
        Object.entries(measured).map(([name, each]) => [
          `${name}: ${each.killed ?? "-"}`,
          each.job ?? "-",
          each.lines ?? "-",
          each.exitCode === 7 ? "known" : "lost",
        ]),
      ),
    ].join("\n\n"),
    acp: [
      about,
      markdownTable(
        [
          "ACP",
          "prompt, from the command line, ms",
          "manager, MB",
          "close the session, ms",
          "left of 6",
          "manager killed: the next prompt",
          "… left of 6 after the close",
        ],
        Object.entries(acp).map(([name, { promptMs, residentKb, closed, killed }]) => [
          name,
          number(promptMs, 0),
          number(residentKb / 1_024, 0),
          number(closed.ms, 0),
          survivorsText(closed.survivors),
          killed.prompt,
          `${killed.survivors.length}${killed.agentsLeft > 0 ? ` and ${killed.agentsLeft} agents` : ""}`,
        ]),
      ),
    ].join("\n\n"),
    short: markdownTable(
      ["", ...Object.keys(measured)],
      [
        [
          "left of six escaping processes, after a stop",
          ...Object.values(measured).map(({ survivors }) => survivors?.length ?? "-"),
        ],
        ["manager killed: job / output / exit code", ...Object.values(measured).map(afterKill)],
        ...(isQuiet ? [times] : []),
      ],
    ),
  };
}

export function writeTables({ full, acp, short }) {
  writeBlock("docs/reference/performance.md", "peers", full);
  writeBlock("docs/reference/performance.md", "acp clients", acp);
  writeBlock("README.md", "peers", short);
}

function afterKill({ job, lines = "", exitCode }) {
  if (job === undefined) return "-";
  const [read, all] = lines.split(" of ");
  const kept = read === all ? "kept" : Number(read) > 0 ? "in part" : "lost";
  return `${job} / ${kept} / ${exitCode === 7 ? "known" : "lost"}`;
}

function survivorsText(digitsAlive) {
  if (digitsAlive.length === 0) return "**0**";
  return `${digitsAlive.length}: ${digitsAlive.map((digit) => ARTISTS[digit - 1]).join(", ")}`;
}

function digits(value) {
  return value < 10 ? value.toFixed(1) : value.toFixed(0);
}

function number(value, places) {
  return value === undefined || Number.isNaN(value) ? "-" : value.toFixed(places);
}
