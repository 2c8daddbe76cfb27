import { argon2, type Argon2Parameters, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { HttpError } from '../../engines/errors.ts'
import { createSemaphore, SemaphoreTimeoutError } from '../../platform/semaphore.ts'

/** Of argon2id: memory in KiB and passes, the first choice of OWASP's password storage cheat sheet. */
const MEMORY_KIB = 19_456
const PASSES = 2
const HASH_BYTES = 32

/** Each hash keeps a thread of the pool and 19 MiB busy; requests beyond wait for so long at most, in milliseconds. */
const hashing = createSemaphore({ limit: 2, maxWaitMs: 5000 })

const computeArgon2 = promisify<'argon2id', Argon2Parameters, Buffer>(argon2)

/** The stored form of a password: `argon2id$memory$passes$salt$hash`. */
export async function hashPassword (password: string): Promise<string> {
  const salt = randomBytes(16)
  const hash = await derive(password, salt, { memory: MEMORY_KIB, passes: PASSES })
  return ['argon2id', MEMORY_KIB, PASSES, salt.toString('base64url'), hash.toString('base64url')].join('$')
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
  // The same text typed on another system may have other code points.
  const message = password.normalize('NFKC')
  const parameters = { message, nonce, ...cost, parallelism: 1, tagLength: HASH_BYTES }
  try {
    return await hashing.run(async () => await computeArgon2('argon2id', parameters))
  } catch (error) {
    if (!(error instanceof SemaphoreTimeoutError)) throw error
    throw new HttpError(503, 'server_error', 'busy', 'Too many people are logging in. Try again.', { cause: error, action: 'retry' })
  }
}
