import { configPath, readConfig } from "../../gateway/config.js";
import { print } from "../runs/print.js";

/** A mistake is a usage error, said by whoever reads the file. */
export async function checkConfigFile(): Promise<number> {
  const path = configPath();
  const { foreign } = await readConfig(path);
  print(`${path} can be used; foreign profiles: ${foreign.map(({ name }) => name).join(", ") || "none"}\n`);
  return 0;
}

export async function showConfigFile(): Promise<number> {
  const path = configPath();
  print(`${JSON.stringify({ path, ...(await readConfig(path)) }, null, 2)}\n`);
  return 0;
}
