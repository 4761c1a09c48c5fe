import { compareWithGoals } from "../goals.mjs";
import { reasonOf } from "../reasons.mjs";
import { markdownTable, writeBlock } from "./marked-block.mjs";

const PAGE = "docs/reference/performance.md";

/** Writes the table of the goals, and the reasons of what is missed. `results`: by part, its rounds. */
export function writeGoals(results) {
  const rounds = Object.values(results).flat();
  const rows = Object.fromEntries(
    Object.entries(results).map(([name, list]) => [name, list.map((each) => each.rows)]),
  );
  const compared = compareWithGoals(rows);
  const table = markdownTable(
    ["work", "goal", "measured", "", "command: `npm run bench --`"],
    compared.map(({ work, goal, range, verdict, part }) => [
      work,
      goal,
      range,
      verdict === "MISSED" ? "**missed**" : verdict,
      `\`--only ${part}\``,
    ]),
  );
  const missed = compared.filter(({ verdict }) => verdict !== "met" && verdict !== "not measured");
  const why = missed.map(({ work, range, verdict }) => {
    const state = verdict === "MISSED" ? "missed" : verdict;
    return `- **${work}** (${range}; ${state}). ${reasonOf(work, rows)}`;
  });
  const text = [
    describeRounds(rounds),
    table,
    ...(why.length > 0 ? [`Not met, and why:\n\n${why.join("\n")}`] : []),
  ];
  writeBlock(PAGE, "goals", text.join("\n\n"));
}

function describeRounds(rounds) {
  if (rounds.length === 0) return "Not measured yet.";
  const distinct = (values) => [...new Set(values)];
  const loads = rounds.map(({ load }) => Number(load));
  const most = Math.max(...loads);
  const dates = distinct(rounds.map(({ at }) => at)).join(", ");
  return `Measured on ${dates} (${distinct(rounds.map(({ machine }) => machine)).join("; ")}; SQLite on a local disk). The load average of the minute before each part was between ${Math.min(...loads)} and ${most}; a part itself makes it about 1 to 3. The range is that of all rounds, each of them a median or a rate.`;
}
