import { parseClickHouseUrl } from '../../platform/clickhouse/connect-clickhouse.ts'
import { MillraceError } from '../../platform/errors.ts'

/** Inserts that wait for others before us are finished by then, or something is wrong. */
const WAIT_MS = 60_000

/**
 * Does work while no insert runs on the embedded ClickHouse. They wait meanwhile, for 30 s at most.
 *
 * @throws {MillraceError} `MILLRACE_BACKUP_NOT_HELD` when the embedded ClickHouse server does not hold them, or did not
 * until the end.
 */
export async function whileInsertsAreHeld<T> (clickhouseUrl: string, work: () => Promise<T>): Promise<T> {
  const { origin, headers } = parseClickHouseUrl(clickhouseUrl)
  const waiting = new AbortController()
  const timer = setTimeout(() => waiting.abort(), WAIT_MS)
  const response = await fetch(`${origin}/hold-inserts`, { method: 'POST', headers, signal: waiting.signal })
    .finally(() => clearTimeout(timer))
  if (response.status !== 200) throw notHeld(await response.text())
  const reader = response.body!.getReader()
  await reader.read()
  let lost = false
  // Only ends when the embedded ClickHouse server gives the hold up.
  const ended = reader.read().then(() => { lost = true }, () => { lost = true })
  try {
    const result = await work()
    // A hold that ended in the meantime has ended in the connection, too, before this turn of the event loop is over.
    await Promise.race([ended, new Promise((resolve) => setImmediate(resolve))])
    if (lost) throw notHeld('the hold ended early')
    return result
  } finally {
    await reader.cancel().catch(() => {})
  }
}

function notHeld (why: string): MillraceError {
  return new MillraceError('MILLRACE_BACKUP_NOT_HELD', `ClickHouse does not hold inserts: ${why.trim().slice(0, 200)}`)
}
