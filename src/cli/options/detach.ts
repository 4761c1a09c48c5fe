import { type Command, Option } from "commander";

export interface DetachFlags {
  readonly detach?: true;
  /** The former spelling of `--detach`. */
  readonly background?: true;
}

/** `-d, --detach`, the one option for work in the background; `-b, --background` is its former spelling. */
export function addDetachOption(command: Command, description: string): Command {
  return command
    .option("-d, --detach", description)
    .addOption(new Option("-b, --background", "the former name of --detach").hideHelp());
}

export function isDetached({ detach, background }: DetachFlags): boolean {
  return detach === true || background === true;
}
