/** Ids and names are cut to this many characters (UTF-16 units), as SDKs and the definitions expect. */
export const MAX_NAME_LENGTH = 200

/**
 * Makes a text storable as an id or a name: NUL becomes U+FFFD (it ends strings in too many places), lone surrogates
 * too (they have no UTF-8), and it is cut without splitting a pair.
 */
export function cleanName (text: string): string {
  if (text.length > MAX_NAME_LENGTH) text = cutText(text, MAX_NAME_LENGTH)
  return cleanText(text)
}

/** NUL and lone surrogates become U+FFFD. */
export function cleanText (text: string): string {
  if (text.includes('\0')) text = text.replaceAll('\0', '\ufffd')
  return text.isWellFormed() ? text : text.toWellFormed()
}

/** Cuts a text to `length` units, one less when it would end in half a surrogate pair. */
export function cutText (text: string, length: number): string {
  if (text.length <= length) return text
  const last = text.charCodeAt(length - 1)
  const splitsPair = last >= 0xd800 && last <= 0xdbff
  return text.slice(0, splitsPair ? length - 1 : length)
}
