import type { Command } from "commander";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";

const doctorExamples = `
Checks the state directory, store, config file and channels, kernel features, cgroup
delegation, launchers and anchors, stale locks, clock and limits, and prints what to
do about each problem. Read-only; nothing is sent to channels (\`holdfast notify test\`
does that).

Exit status: 0, or 1 if something cannot work.
`;

export function addDoctorCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("doctor")
    .summary("check this machine and the setup")
    .description("Check everything Holdfast depends on, and print what is wrong and what to do about it.")
    .option("--json", "print JSON")
    .addHelpText("after", doctorExamples)
    .action(lazyAction(setExitCode, () => import("./run-doctor.js"), "runDoctor"));
}
