const PARTS: Readonly<Record<string, string>> = {
  cgroup:
    "The kernel knows all processes of this run, ends them at once, and confirms that none is left (cgroup).",
  job: "The kernel knows all processes of this run and ends them at once (Job Object).",
  subreaper:
    "Processes belong to this run by descent from its anchor. Nothing escapes while the anchor lives.",
  lineage: "Processes belong to this run by the unique ids of their parents.",
  group: "Only the process group of the command is known. A process that leaves it leaves the run.",
  launcher: "If the anchor is killed, its processes are inherited by the launcher and ended.",
  unique: "A process is recognized by an id that the kernel never gives twice.",
  handle: "Signals go to a handle of a process; a recorded process needs a second fact to match.",
  number: "Processes are recognized by pid and start time.",
};

/** The meaning of a tier such as `cgroup+launcher+unique`, a sentence for each part. */
export function tierSentences(tier: string): readonly string[] {
  return tier.split("+").map((part) => PARTS[part] ?? part);
}
