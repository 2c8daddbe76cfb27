import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { MillraceError } from '../../engines/errors.ts'
import { COPY_DATABASE, COPY_EVENTS, DROP_COPY, readBooksOf } from '../../schema/backup-statements.ts'

/** Events of a project that were received on a day (UTC), as one number and one checksum. */
export interface BooksDay {
  project: number
  /** `2026-11-22`. */
  day: string
  events: number
  /** Sum of hashes of uuid, event, distinct id and time, modulo 2^64, in decimal: the same in any order. */
  checksum: string
}

/**
 * Copies `events` as it is now, as hard links: the copy stays as it is while events are inserted, merged and removed.
 */
export async function copyEvents (clickhouse: ClickHouse): Promise<void> {
  for (const query of COPY_EVENTS) await clickhouse.command({ query })
}

export async function dropCopy (clickhouse: ClickHouse): Promise<void> {
  await clickhouse.command({ query: DROP_COPY })
}

export async function readBooksOfCopy (clickhouse: ClickHouse): Promise<BooksDay[]> {
  return await readBooks(clickhouse, `${COPY_DATABASE}.events`)
}

/**
 * Compares restored events with the books of the backup.
 *
 * @throws {MillraceError} `MILLRACE_RESTORE_FAILED` naming the first project and day that differs.
 */
export async function verifyBooks (clickhouse: ClickHouse, books: readonly BooksDay[]): Promise<void> {
  const found = new Map((await readBooks(clickhouse, 'events')).map((day) => [`${day.project} ${day.day}`, day]))
  for (const { project, day, events, checksum } of books) {
    const restored = found.get(`${project} ${day}`)
    found.delete(`${project} ${day}`)
    if (restored?.events === events && restored.checksum === checksum) continue
    throw new MillraceError('MILLRACE_RESTORE_FAILED', `project ${project} has ${restored?.events ?? 0} events received on ${day}, and ` +
      `${events} in the books of the backup${restored?.events === events ? ', but not the same ones' : ''}`)
  }
  const [extra] = found.values()
  if (extra !== undefined) {
    throw new MillraceError('MILLRACE_RESTORE_FAILED',
      `project ${extra.project} has ${extra.events} events received on ${extra.day}, and none in the books of the backup`)
  }
}

async function readBooks (clickhouse: ClickHouse, table: string): Promise<BooksDay[]> {
  const rows = await queryRows<Omit<BooksDay, 'events'> & { events: string }>(clickhouse, readBooksOf(table))
  return rows.map(({ events, ...row }) => ({ ...row, events: Number(events) }))
}
