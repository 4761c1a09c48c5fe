// The software bill of materials of the main package, as CycloneDX: what npm installs with it, and what is bundled into
// it. It is read from package-lock.json, which has the version, digest and licence of each package.

import { npm } from "../npm.mjs";

const BUNDLED = { name: "holdfast:bundled", value: "true" };

/**
 * `roots` are the names of the packages that are needed at run time; `bundled` are those that are part of the package's
 * own files.
 */
export function createSbom(root, { roots, bundled }) {
  const list = ["sbom", "--sbom-format", "cyclonedx", "--package-lock-only", "--loglevel=error"];
  const { status, stdout } = npm(list, {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) throw new Error("npm sbom failed");
  const { serialNumber: _, ...all } = JSON.parse(stdout.toString("utf8"));
  const project = all.metadata.component["bom-ref"];
  const edges = new Map(all.dependencies.map(({ ref, dependsOn = [] }) => [ref, dependsOn]));
  const nameOf = new Map(all.components.map(({ name, "bom-ref": ref }) => [ref, name]));
  const isRoot = (ref) => roots.includes(nameOf.get(ref));
  const needed = new Set(reachable(edges, (edges.get(project) ?? []).filter(isRoot)));
  const components = all.components
    .filter(({ "bom-ref": ref }) => needed.has(ref))
    .map((component) => describe(component, bundled));
  const kept = new Set(components.map(({ "bom-ref": ref }) => ref));
  // The time of the build and a random serial number would make two builds of one commit differ.
  const { timestamp: _time, ...metadata } = all.metadata;
  return {
    ...all,
    // npm takes the name of the directory.
    metadata: {
      ...metadata,
      component: { ...metadata.component, name: project.split("@")[0], properties: [] },
    },
    components,
    dependencies: all.dependencies
      .filter(({ ref }) => ref === project || kept.has(ref))
      .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((each) => kept.has(each)) })),
  };
}

/** Returns the packages that bundled packages need and that are neither bundled nor installed. */
export function unbundledProblems({ components, dependencies }, { bundled, installed }) {
  const names = new Map(components.map(({ name, "bom-ref": ref }) => [ref, name]));
  return dependencies.flatMap(({ ref, dependsOn }) =>
    bundled.includes(names.get(ref))
      ? dependsOn
          .map((each) => names.get(each))
          .filter((name) => !bundled.includes(name) && !installed.includes(name))
          .map(
            (name) =>
              `${names.get(ref)} is bundled and needs ${name}, which is neither bundled nor installed`,
          )
      : [],
  );
}

/** In the lockfile, packages of the page are dependencies of the development. */
function describe(component, bundled) {
  const properties = bundled.includes(component.name) ? [BUNDLED] : [];
  return { ...component, scope: "required", properties };
}

function* reachable(edges, starts) {
  const seen = new Set(starts);
  for (const ref of seen) {
    yield ref;
    for (const next of edges.get(ref) ?? []) seen.add(next);
  }
}
