import { hash } from 'node:crypto'
import { MAX_SHORT_TEXT, sha1TopBits } from './sha1-top-bits.ts'

/** The protocol divides by fifteen hex digits F, which as a double is 2^60. */
const SCALE = 2 ** 60

/**
 * Places an identifier on the line from 0 to 1 for one flag. The same key and identifier always fall on the same
 * place, in every SDK: changing this function moves users between variants.
 *
 * @param key         Key of the flag.
 * @param identifier  What the flag counts by: distinct id, group key or device id. Empty: 0, always in.
 * @param salt        Empty for rollouts, `variant` for the choice of a variant.
 */
export function hashIdentifier (key: string, identifier: string, salt: '' | 'variant'): number {
  return identifier === '' ? 0 : hashText(`${key}.${identifier}${salt}`)
}

/** The place of an identifier for holdouts: the same for every flag, so that one group is held out of all of them. */
export function hashForHoldout (identifier: string): number {
  return hashText(`holdout-${identifier}`)
}

function hashText (text: string): number {
  if (text.length <= MAX_SHORT_TEXT) {
    const bits = sha1TopBits(text)
    if (bits >= 0) return bits / SCALE
  }
  return Number.parseInt(hash('sha1', text, 'hex').slice(0, 15), 16) / SCALE
}
