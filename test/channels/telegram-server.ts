import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { createRequire } from "node:module";
import { onTestFinished } from "vitest";

/** As much of the emulator as is used. Its own types want a library of the browser's. */
interface TelegramEmulator {
  readonly storage: { readonly botMessages: readonly BotMessage[] };
  readonly config: { readonly apiURL: string };
  start(): Promise<void>;
  stop(): Promise<unknown>;
}

interface BotMessage {
  readonly botToken: string;
  readonly messageId: number;
  readonly message: Readonly<Record<string, unknown>>;
}

const TelegramServer = createRequire(import.meta.url)("telegram-test-api") as new (config: {
  readonly port: number;
  readonly host: string;
}) => TelegramEmulator;

/** The Bot API, emulated on a free port of loopback. */
export async function startTelegramServer(): Promise<TelegramEmulator> {
  // It takes 0 for its default.
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  const emulator = new TelegramServer({ port, host: "127.0.0.1" });
  await emulator.start();
  onTestFinished(async () => void (await emulator.stop()));
  return emulator;
}
