import { readdir, readFile, readlink } from "node:fs/promises";

/** Descriptor number to what it is, as /proc says it: `pipe:[17]`, `socket:[4]`, `/dev/pts/3`. */
export async function descriptors(pid: number | "self"): Promise<Map<number, string>> {
  const directory = `/proc/${pid}/fd`;
  const found = new Map<number, string>();
  for (const name of await readdir(directory)) {
    // The one that reads the listing is closed by now.
    const target = await readlink(`${directory}/${name}`).catch(() => null);
    if (target !== null) found.set(Number(name), target);
  }
  return found;
}

/** Only what connects processes: two of them that show the same one share it. */
export async function connectedDescriptors(pid: number | "self"): Promise<Set<string>> {
  const all = [...(await descriptors(pid)).values()];
  return new Set(all.filter((target) => /^(?:pipe|socket):\[|^\/dev\/pts\//.test(target)));
}

export async function parentOf(pid: number): Promise<number> {
  return Number((await statFields(pid))[1]);
}

/** Whether its terminal's keys go to it: ^C and ^Z are signals to whoever has them. */
export async function isForegroundOfTerminal(pid: number): Promise<boolean> {
  const [, , group, , , foreground] = await statFields(pid);
  return group === foreground;
}

/** Of /proc/…/stat, from the state on. */
async function statFields(pid: number): Promise<string[]> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}
