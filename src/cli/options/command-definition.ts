/** Sets the exit code of `holdfast`; every command gets it. */
export type SetExitCode = (code: number) => void;

/** The action of a command: calls a function of a module that is loaded only when the command is run. */
export function lazyAction<
  Module extends Readonly<Record<Name, (...args: never[]) => Promise<number>>>,
  Name extends string,
>(
  setExitCode: SetExitCode,
  load: () => Promise<Module>,
  name: Name,
): (...args: Parameters<Module[Name]>) => Promise<void> {
  return async (...args) => setExitCode(await (await load())[name](...args));
}

/** The flag of commands that can print JSON. */
export interface JsonFlag {
  readonly json?: boolean;
}

/** The help text of a `<run>` argument. */
export const RUN_ARGUMENT = "its id, the beginning of its id, or its name";
