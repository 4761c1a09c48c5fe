import type { Command } from "commander";
import type { SetExitCode } from "../options/parsers.js";

const doctorExamples = `
State directory, store, config and channels, kernel features, cgroup delegation,
launchers and anchors, stale locks, clock and limits, each with the remedy when
something is missing. Only reads; of channels, nothing is sent: \`holdfast notify
test\` does. Exit status: 0, or 1 when something cannot work.
`;

export function addDoctorCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("doctor")
    .summary("what this machine offers, and what is wrong")
    .description("Look at everything Holdfast stands on, and say what is wrong and what to do about it.")
    .option("--json", "as JSON")
    .addHelpText("after", doctorExamples)
    .action(async ({ json }: { readonly json?: true }) => {
      const { runDoctor } = await import("./doctor.js");
      setExitCode(await runDoctor(json === true));
    });
}
