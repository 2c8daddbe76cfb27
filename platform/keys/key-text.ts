import { createHash, randomInt } from 'node:crypto'

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** 43 characters of 62 carry 256 bits. */
const LENGTH = 43

/** A new random key: `phc_` for projects (public, in clients), `phx_` for people (secret). */
export function mintKey (prefix: 'phc_' | 'phx_'): string {
  return prefix + Array.from({ length: LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
}

/** First and last four characters: enough to recognise a key, too little to use it. */
export function maskKey (key: string): string {
  return `${key.slice(0, 4)}...${key.slice(-4)}`
}

/**
 * What is stored of a personal key: `sha256$` and the hash in hex.
 *
 * Unsalted on purpose: the key is random with more than 200 bits, so nobody can try all, and a fixed hash can be
 * looked up by index.
 */
export function hashPersonalKey (key: string): string {
  return `sha256$${createHash('sha256').update(key).digest('hex')}`
}

/** Personal keys are told from project and team keys by their prefix. */
export function isPersonalKey (key: string): boolean {
  return key.startsWith('phx_')
}
