import { createHash } from 'node:crypto'

/**
 * What is stored of a personal key: `sha256$` and the hash in hex.
 *
 * Unsalted on purpose: the key is random with more than 200 bits, so nobody can try all, and a fixed hash can be
 * looked up by index.
 */
export function hashPersonalKey (key: string): string {
  return `sha256$${createHash('sha256').update(key).digest('hex')}`
}
