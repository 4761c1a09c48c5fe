// Executes the shell command that is its argument: a RUN of Dockerfile, inside a clean root.

import { execute } from "./steps.mjs";

execute(["/bin/sh", "-c", process.argv[2] ?? ""]);
