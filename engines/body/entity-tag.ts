/**
 * Whether a client has what a tag names: `If-None-Match` is a list of tags, or `*` for any. The comparison is weak,
 * because proxies that compress again add the `W/`, and others remove it.
 *
 * @param header  `If-None-Match` as received.
 */
export function hasEntityTag (header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  const opaque = withoutWeakness(etag)
  return header.split(',').some((tag) => tag.trim() === '*' || withoutWeakness(tag.trim()) === opaque)
}

function withoutWeakness (tag: string): string {
  return tag.startsWith('W/') ? tag.slice(2) : tag
}
