/** What the program has asked of its terminal, as far as it changes what keys and pastes must send. */
export interface TerminalModes {
  /** DECCKM: cursor keys send SS3 instead of CSI. */
  readonly applicationCursor: boolean;
  /** DECKPAM: the keypad sends sequences instead of its characters. */
  readonly applicationKeypad: boolean;
  readonly bracketedPaste: boolean;
  /** The program wants to hear of focus, and of the mouse. */
  readonly focusEvents: boolean;
  readonly mouse: boolean;
}

/** A terminal that was asked for nothing; also what a run without one is taken for. */
export const defaultTerminalModes: TerminalModes = {
  applicationCursor: false,
  applicationKeypad: false,
  bracketedPaste: false,
  focusEvents: false,
  mouse: false,
};
