/** A chat by its number or public name, and a thread in it: `-1001234567890/17`. */
export const TELEGRAM_ADDRESS = /^(-?\d{1,19}|@[A-Za-z]\w{3,63})(?:\/(\d{1,15}))?$/;
