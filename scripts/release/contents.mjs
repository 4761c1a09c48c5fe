// Which files the main package may have. What is not listed here is not published: no tests, no source maps, no paths of
// the machine that has built it.

/** Paths below `package/`. */
const ALLOWED = [
  /^(LICENSE|README\.md|CHANGELOG\.md|THIRD-PARTY-LICENSES|package\.json)$/,
  /^docs\/([\w-]+\/)*[\w-]+\.(md|svg|webp)$/,
  /^docs\/openapi\.json$/,
  /^dist\/index\.js$/,
  /^dist\/cli\/main\.js$/,
  /^dist\/bundle\/([\w-]+\.cjs|package\.json)$/,
  /^dist\/chunks\/[\w-]+\.js$/,
  /^dist\/([\w-]+\/)*[\w-]+\.d\.ts$/,
  /^dist\/web\/([\w-]+\/)*[\w.-]+\.(html|js|css|svg|woff2)$/,
];

/** Returns what is wrong with the files of a package: `allowed` are patterns, and no file names the checkout. */
export function contentProblems(entries, checkout, allowed = ALLOWED) {
  return entries.flatMap(({ path, content }) => {
    const inside = path.replace(/^package\//, "");
    const problems = [];
    if (!allowed.some((pattern) => pattern.test(inside)))
      problems.push(`${inside} is not on the list of files`);
    if (content.includes(`${checkout}/`)) problems.push(`${inside} contains the path ${checkout}`);
    return problems;
  });
}
