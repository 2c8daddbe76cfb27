import { hash } from 'node:crypto'

/** Namespace of person ids, as compatible systems use it; `events.person_id` computes the same in ClickHouse. */
const NAMESPACE = Buffer.from('932979b465c3442484670b66ec27bc22', 'hex')

const VARIANT = '89ab89ab89ab89ab'

/**
 * The id of the person of a distinct id that was never merged: UUIDv5 of `<project>:<distinct id>`.
 */
export function personUuid (projectId: number, distinctId: string): string {
  const name = `${projectId}:${distinctId}`
  const bytes = Buffer.allocUnsafe(NAMESPACE.length + Buffer.byteLength(name))
  NAMESPACE.copy(bytes)
  bytes.write(name, NAMESPACE.length)
  const hex = hash('sha1', bytes, 'hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-` +
    `${VARIANT.charAt(parseInt(hex.charAt(16), 16))}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
