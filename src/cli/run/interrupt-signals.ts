import { constants } from "node:os";
import { exitCodes } from "../print/exit-code.js";

/** On Windows, Ctrl-C and Ctrl-Break are SIGINT and SIGBREAK, and SIGHUP means that the console window was closed. */
const INTERRUPT_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"] as const;
export type InterruptSignal = (typeof INTERRUPT_SIGNALS)[number];

/** Until it is disposed, these signals call the listener instead of ending this process. */
export function onInterruptSignals(listener: (signal: InterruptSignal) => void): Disposable {
  const onSignal = listener as NodeJS.SignalsListener;
  const signals = INTERRUPT_SIGNALS.filter((signal) => signal in constants.signals);
  for (const signal of signals) process.on(signal, onSignal);
  return {
    [Symbol.dispose]() {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
}

/** As shells report a command that was ended by this signal. */
export function interruptExitCode(signal: InterruptSignal): number {
  return exitCodes.signal + constants.signals[signal];
}

/** STATUS_CONTROL_C_EXIT: the exit code of a Windows process that a console signal ended. */
const CONTROL_C_EXIT = 0xc000013a;

/** Ends this process as if the signal were not handled. */
export function dieBySignal(signal: InterruptSignal): void {
  if (process.platform === "win32") process.exit(CONTROL_C_EXIT);
  process.removeAllListeners(signal);
  // oxlint-disable-next-line no-restricted-properties -- the only target is this process
  process.kill(process.pid, signal);
}

/** The interrupt signal with this number. Null: the number is of another signal. */
export function interruptSignalOf(number: number): InterruptSignal | null {
  return INTERRUPT_SIGNALS.find((name) => constants.signals[name] === number) ?? null;
}
