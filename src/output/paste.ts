import type { TerminalModes } from "./terminal-modes.js";

const PASTE_BEGIN = "\u001b[200~";
const PASTE_END = "\u001b[201~";

/**
 * Text as a terminal pastes it: lines end in CR, as the Enter key does; in markers when the program asked for them.
 *
 * A paste is text. Control characters in it are shown as pictures, not sent: an ESC could end the marked
 * paste early (ESC [201~) and make commands of the rest, and ^C or ^D would act even without markers.
 * Keys are for send-keys. Without markers a program takes each line as entered; that is the caller's affair.
 */
export function encodePaste(text: string, modes: TerminalModes): Uint8Array {
  const body = text.replace(/\r\n|\n/g, "\r").replace(PASTE_CONTROLS, controlPicture);
  return Buffer.from(modes.bracketedPaste ? PASTE_BEGIN + body + PASTE_END : body, "utf8");
}

/** C0 but tab and CR, DEL, and C1, where the 8-bit CSI is. */
const PASTE_CONTROLS = /[\0-\u0008\u000a-\u000c\u000e-\u001f\u007f-\u009f]/g;

function controlPicture(control: string): string {
  const code = control.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : "\ufffd";
}
