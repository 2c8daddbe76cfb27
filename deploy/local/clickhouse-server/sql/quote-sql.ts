/** A string literal of ClickHouse. Only the quote and the backslash have a meaning inside one. */
export function quoteString (text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}

/** A quoted identifier of ClickHouse. */
export function quoteIdentifier (text: string): string {
  return `\`${text.replace(/[\\`]/g, '\\$&')}\``
}
