import { spawnSync } from "node:child_process";

/** A shell as PID 1, because it reaps orphans and Node does not. It must not execute its last command. */
const ISOLATED = [
  ...["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"],
  ...["sh", "-c", '"$@"; exit $?', "sh"],
];

/** The words before a command that give it a PID namespace, which ends with it; none where that needs more rights. */
export function namespaceWords() {
  const [program, ...words] = ISOLATED;
  const works = process.getuid?.() === 0 && spawnSync(program, [...words, "true"]).status === 0;
  return works ? ISOLATED : [];
}

/** Executes this script again in a PID namespace of its own, unless it is in one. Returns false inside. */
export function enterNamespace() {
  if (process.env.HOLDFAST_BENCH_NAMESPACE !== undefined) return false;
  const words = namespaceWords();
  if (words.length === 0)
    throw new Error("no PID namespace can be made: this benchmark leaves processes on purpose");
  const [program, ...rest] = [...words, process.execPath, ...process.argv.slice(1)];
  const env = { ...process.env, HOLDFAST_BENCH_NAMESPACE: "1" };
  process.exitCode = spawnSync(program, rest, { stdio: "inherit", env }).status ?? 1;
  return true;
}
