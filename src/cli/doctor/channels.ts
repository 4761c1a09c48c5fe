import { describeChannel, checkChannel } from "../../channels/check-channel.js";
import { readSettings } from "../../config/settings.js";
import { bad, ok, warn, type Check } from "./check.js";

/** Each channel of the config, as far as can be told without asking anybody. A config that cannot be read is said elsewhere. */
export async function checkChannels(): Promise<Check[]> {
  const channels = await readSettings().then(
    ({ config }) => Object.entries(config.channels),
    () => [],
  );
  return Promise.all(
    channels.map(async ([channel, entry]) => {
      const name = `channel ${channel}`;
      const problems = await checkChannel(entry);
      const worst = problems.find(({ fatal }) => fatal) ?? problems[0];
      if (worst === undefined) return ok(name, `${entry.kind}: ${describeChannel(entry)}`);
      const detail = `${entry.kind}: ${problems.map(({ what }) => what).join("; ")}`;
      return worst.fatal ? bad(name, detail, worst.remedy) : warn(name, detail, worst.remedy);
    }),
  );
}
