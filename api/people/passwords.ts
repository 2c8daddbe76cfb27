import { argon2, type Argon2Parameters, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { HttpError, invalidField } from '../../engines/errors.ts'
import { createSemaphore, SemaphoreTimeoutError } from '../../platform/semaphore.ts'

/** Of argon2id: memory in KiB and passes, the first choice of OWASP's password storage cheat sheet. */
const MEMORY_KIB = 19_456
const PASSES = 2
const HASH_BYTES = 32

/** Each hash keeps a thread of the pool and 19 MiB busy; requests beyond wait for so long at most, in milliseconds. */
const hashing = createSemaphore({ limit: 2, maxWaitMs: 5000 })

const computeArgon2 = promisify<'argon2id', Argon2Parameters, Buffer>(argon2)

/** Characters that differ, besides blanks and what nobody sees. */
const MIN_DIFFERENT = 5

/** What leads the published lists of stolen passwords, with any digits or signs behind it. */
const COMMON = /^(?:abc|admin|administrator|azerty|baseball|basketball|changeme|dragon|football|iloveyou|letmein|login|master|millrace|monkey|p[a@][s$]{2}w[o0]rd|princess|qwert[yz]|secret|shadow|starwars|sunshine|superman|test|trustno|welcome|whatever)+[\d\p{P}\p{S}]*$/u

/** Digits, letters and keys in a row. */
const ROWS = ['01234567890123456789', 'abcdefghijklmnopqrstuvwxyz', 'qwertyuiopasdfghjklzxcvbnm', 'qwertzuiopasdfghjklyxcvbnm', '1q2w3e4r5t6y7u8i9o0p', '1qaz2wsx3edc4rfv5tgb6yhn7ujm']

/**
 * The stored form of a password that somebody chooses: `argon2id$memory$passes$salt$hash`.
 *
 * @param names  The address and names of the user.
 * @throws {HttpError} 400 for one that is guessed first.
 */
export async function hashChosen (password: string, names: readonly string[]): Promise<string> {
  const text = visible(password)
  if (new Set(text).size < MIN_DIFFERENT) throw invalidField('password', `Use at least ${MIN_DIFFERENT} different characters.`)
  if (names.some((name) => [visible(name), visible(name.replace(/@.*$/, ''))].includes(text))) throw invalidField('password', 'Do not use your address or name.')
  const backwards = [...text].reverse().join('')
  if (COMMON.test(text) || ROWS.some((row) => row.includes(text) || row.includes(backwards))) throw invalidField('password', 'This password is one of the most common ones.')
  const salt = randomBytes(16)
  const hash = await derive(password, salt, { memory: MEMORY_KIB, passes: PASSES })
  return ['argon2id', MEMORY_KIB, PASSES, salt.toString('base64url'), hash.toString('base64url')].join('$')
}

function visible (text: string): string {
  return normalise(text).toLowerCase().replaceAll(/[\p{White_Space}\p{C}]/gu, '')
}

/** The same text typed on another system may have other code points. */
function normalise (text: string): string {
  return text.normalize('NFKC')
}

/**
 * Compares a password with a stored form.
 *
 * @param stored  Null: there is no account or no password. It takes the same time, so that nobody learns which.
 */
export async function isPassword (password: string, stored: string | null): Promise<boolean> {
  const [, memory, passes, salt = '', hash = ''] = (stored ?? '').split('$')
  const expected = stored === null ? Buffer.alloc(HASH_BYTES) : Buffer.from(hash, 'base64url')
  const derived = await derive(password, Buffer.from(stored === null ? 'no such account!' : salt, 'base64url'), {
    memory: Number(memory ?? MEMORY_KIB), passes: Number(passes ?? PASSES)
  })
  return timingSafeEqual(derived, expected) && stored !== null
}

/** @throws {HttpError} 503 when too many passwords are checked at once. */
async function derive (
  password: string, nonce: Buffer, cost: Pick<Argon2Parameters, 'memory' | 'passes'>
): Promise<Buffer> {
  const parameters = { message: normalise(password), nonce, ...cost, parallelism: 1, tagLength: HASH_BYTES }
  try {
    return await hashing.run(async () => await computeArgon2('argon2id', parameters))
  } catch (error) {
    if (!(error instanceof SemaphoreTimeoutError)) throw error
    throw new HttpError(503, 'server_error', 'busy', 'Too many people are logging in. Try again.', { cause: error, action: 'retry' })
  }
}
