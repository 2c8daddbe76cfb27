/**
 * Remembers the answers of a function that costs more than a look-up, in bounded memory. When the younger of two
 * generations is full it becomes the older one, whose unused entries are forgotten: a client that always asks for new
 * keys neither fills the memory nor pushes out those in use.
 *
 * @param size        Entries of a generation.
 * @param longestKey  Characters of a key that is remembered. Longer ones are answered each time: keys come from
 *   clients, and a few thousand of a megabyte each would end the process.
 */
export function rememberRecent<Answer extends NonNullable<unknown> | null> (
  answer: (key: string) => Answer, { size, longestKey }: { size: number, longestKey: number }
): (key: string) => Answer {
  let young = new Map<string, Answer>()
  let old = new Map<string, Answer>()

  return function recall (key) {
    if (key.length > longestKey) return answer(key)
    const known = young.get(key)
    if (known !== undefined) return known
    const earlier = old.get(key)
    const found = earlier === undefined ? answer(key) : earlier
    if (young.size >= size) {
      old = young
      young = new Map()
    }
    young.set(key, found)
    return found
  }
}
