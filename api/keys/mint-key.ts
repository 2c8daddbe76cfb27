import { randomInt } from 'node:crypto'

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
