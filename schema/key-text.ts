import { createHash, randomInt } from 'node:crypto'

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** 43 characters of 62 carry 256 bits. */
const LENGTH = 43

/** Generates a random key: `phc_` for projects (public, in clients), `phx_` for users (secret), `phl_` for links. */
export function mintKey (prefix: 'phc_' | 'phx_' | 'phl_'): string {
  return prefix + Array.from({ length: LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
}

/** The first and last four characters: enough to recognise a key, too few to use it. */
export function maskKey (key: string): string {
  return `${key.slice(0, 4)}...${key.slice(-4)}`
}

/**
 * The stored form of a personal key: `sha256$` and the hash in hex.
 *
 * Unsalted on purpose: a key has more than 200 random bits, too many to try, and an unsalted hash can be found by
 * index.
 */
export function hashPersonalKey (key: string): string {
  return `sha256$${createHash('sha256').update(key).digest('hex')}`
}

/** True for personal keys, which differ from project and team keys by their prefix. */
export function isPersonalKey (key: string): boolean {
  return key.startsWith('phx_')
}
