/** Inserts whose rows are stored once, and counted exactly, although a materialized view of a user fails in them. */
import { CLICKHOUSE_ERRORS, classifyClickHouseError } from '../../../platform/clickhouse/clickhouse-errors.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { isOurView, type LastError, listUserViews, readFailedView, readLastErrors, TABLES_OF_OUR_VIEWS } from './user-views.ts'
import { type FramesInsert, InsertError, type InsertFrames } from './insert-frames.ts'

export interface PastViewsDeps {
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster: string
  /** The database of our tables on one node. */
  database: string
  /** A view misses the rows of an insert, or holds the inserts up. */
  onFailure: (view: string, error: string) => void
}

/** How often an insert is tried as it is when a view has no memory or no time: it may have some later. */
const BUSY_TRIES = 3

/** For so long, in milliseconds, a view that stayed busy is not given these tries. */
const BUSY_MS = 600_000

/** How often an insert is repeated when it cannot be seen whether a view of ours failed, too. */
const UNCLEAR_TRIES = 5

/**
 * Repeats an insert that a view of a user failed, with its token and without regard to errors of views: the table and
 * the views that have its rows recognise them, the others take them now, and the failing view goes without.
 *
 * The setting ignores errors of our own views, too. ClickHouse counts every error, the ignored ones as well: when one
 * of them may be of a view of ours, the insert counts as failed, and is repeated by the caller.
 */
export function insertPastViews (insertFrames: InsertFrames, deps: PastViewsDeps): InsertFrames {
  const { clickhouse, cluster, database, onFailure } = deps
  const busySince = new Map<string, number>()

  async function findFailedView (error: InsertError, attempt: number): Promise<string | null> {
    const { action } = classifyClickHouseError(error)
    const view = readFailedView(error.message)
    if (view !== null) {
      if (isOurView(view, database)) return null
      if (action !== 'retry' || Date.now() - (busySince.get(view) ?? -Infinity) < BUSY_MS) return view
      if (attempt < BUSY_TRIES) return null
      busySince.set(view, Date.now())
      return view
    }
    if (action === 'retry' && !error.isSilence) return null
    // Of some errors, as of a table elsewhere that a view fills, ClickHouse does not say where they are from.
    const views = await listUserViews(clickhouse, ['events', ...TABLES_OF_OUR_VIEWS]).catch(() => [])
    if (error.isSilence) for (const each of views) onFailure(each, error.message)
    return error.isSilence || views.length === 0 ? null : views.join(' or ')
  }

  async function readErrors (): Promise<LastError[]> {
    try {
      return await readLastErrors(clickhouse, cluster)
    } catch (cause) {
      // Without the right to read them, a view of ours that fails in the same insert goes unnoticed.
      if (classifyClickHouseError(cause).action === 'repair') return []
      throw new InsertError('the errors of views cannot be read', 0, cause)
    }
  }

  /** What keeps from saying that the views of ours have the rows. */
  function findDoubt (
    before: readonly LastError[], after: readonly LastError[], attempt: number
  ): LastError | undefined {
    const counts = new Map(before.map(({ key, count }) => [key, count]))
    return after.find(({ key, code, count, message }) => {
      const added = count - (counts.get(key) ?? 0)
      if (added <= 0) return false
      // Only the last one has its text here. What our views can fail with are errors that pass.
      const isUnclear = added > 1 && CLICKHOUSE_ERRORS[code]?.action === 'retry' && attempt < UNCLEAR_TRIES
      return isUnclear || isOurView(readFailedView(message) ?? '', database)
    })
  }

  return async function insertPastViews (insert: FramesInsert) {
    try {
      await insertFrames(insert)
    } catch (error) {
      if (!(error instanceof InsertError) || insert.signal?.aborted === true) throw error
      const { attempt = 0 } = insert
      const view = await findFailedView(error, attempt)
      if (view === null) throw error
      const before = await readErrors()
      const settings = { ...insert.settings, materialized_views_ignore_errors: '1' }
      await insertFrames({ ...insert, settings })
      const doubt = findDoubt(before, await readErrors(), attempt)
      if (doubt !== undefined) throw new InsertError(`a view of Millrace may have failed beside ${view}: ${doubt.message}`, 0)
      onFailure(view, error.message)
    }
  }
}
