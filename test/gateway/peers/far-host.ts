import { writeFile } from "node:fs/promises";
import { join } from "node:path";

export const OTHER_HOST = "far-host";

/** Words before a command that have it run on another host, as far as it can tell: with a name and an id of its own. */
export async function onOtherHost(home: string): Promise<readonly string[]> {
  const id = join(home, "machine-id");
  await writeFile(id, `${"f".repeat(32)}\n`);
  const script = `hostname ${OTHER_HOST}; if [ -e /etc/machine-id ]; then mount --bind "${id}" /etc/machine-id; fi; exec "$@"`;
  return ["unshare", "--mount", "--uts", "sh", "-c", script, "sh"];
}
