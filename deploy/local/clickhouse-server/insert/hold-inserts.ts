import { type ServerResponse } from 'node:http'
import { type User } from '../request/authenticate.ts'
import { QueryError } from '../errors.ts'
import { type ServerParts } from '../server-parts.ts'
import { POOL_SIZES } from '../engine/profiles.ts'

/** Anyone who holds inserts has that long; writers wait meanwhile and time out much later. */
const HOLD_MS = 30_000

/**
 * `POST /hold-inserts`: waits until no insert runs, answers `held`, and lets no insert begin until the client closes
 * the connection. A backup takes its cut meanwhile: an insert is in the table and in every view of it, or in none.
 *
 * @throws {QueryError} 164 for analysts.
 */
export async function holdInserts (parts: ServerParts, user: User, response: ServerResponse): Promise<void> {
  if (user === 'analyst') throw new QueryError(164, 'analyst: Cannot hold inserts in readonly mode')
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  let permits = 0
  try {
    // All permits of the pool: what entered before runs to its end first.
    while (permits < POOL_SIZES.insert.size) {
      await parts.pools.insert.enter(gone.signal)
      permits++
    }
    response.writeHead(200, { 'content-type': 'text/plain' })
    response.write('held\n')
    const timer = setTimeout(() => response.destroy(), HOLD_MS)
    await new Promise<void>((resolve) => {
      gone.signal.addEventListener('abort', () => resolve(), { once: true })
      if (gone.signal.aborted) resolve()
    })
    clearTimeout(timer)
  } finally {
    for (; permits > 0; permits--) parts.pools.insert.leave()
  }
}
