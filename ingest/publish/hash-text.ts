/** FNV-1a over UTF-16 units: spreads ids over partitions and partitions; the same for every process and version. */
export function hashText (seed: number, text: string): number {
  let hash = 0x811c9dc5 ^ seed
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  // FNV leaves the low bits weak for short texts.
  hash ^= hash >>> 15
  return Math.imul(hash, 0x2c1b3c6d) >>> 0
}
