import type { DoctorCheck } from "../../model/doctor-check.js";

export type Check = DoctorCheck;

type NewCheck = (name: string, detail: string, remedy?: string | null) => Check;

const check =
  (state: Check["state"]): NewCheck =>
  (name, detail, remedy = null) => ({ name, state, detail, remedy });

export const ok = check("ok");
export const warn = check("warn");
export const bad = check("bad");
