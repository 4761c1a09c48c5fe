import { exitedIsFinal } from "./0007-session-of-run.js";

/** In which time namespace the start times of a run's processes were read. Rows from before do not say. */
export const sql = `
alter table runs add column time_namespace text;
drop trigger runs_exited_is_final;
${exitedIsFinal(["state_id", "time_namespace"])}
`;
