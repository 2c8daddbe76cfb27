import { setTimeout as delay } from 'node:timers/promises'
import { checkBooks, countStored, type Drift } from '../../../pipeline/accounting/check-books.ts'
import { waitForReplicas } from '../../../platform/clickhouse/wait-for-replicas.ts'
import { LAB_CLUSTER } from '../../cluster/lab/start-lab.ts'
import { isUnavailable } from '../../../platform/store-errors.ts'
import { minuteOfReceipt } from '../../../schema/wire/ledger.ts'
import type { FaultSystem } from '../system/fault-system.ts'

/** Clocks of the tiers go wrong by less than this, in minutes: the load of such a time is compared, too. */
const CLOCK_MINUTES = 3 * 1440

/** Longest wait for inserts under way, in milliseconds. */
const SETTLE_MS = 60_000

/** A cluster that takes a server back may elect leaders once more, when all worked already; within this, in ms. */
const ANSWER_MS = 30_000

/** What the books of a run say. */
export interface BooksAudit {
  /** Rows that `events` has too few or too many. */
  drift: number
  /** Events that the books hold: those that were compared. */
  compared: number
  /** One line for each minute that does not balance, and for what could not be compared. */
  problems: string[]
}

type BooksSystem = Pick<FaultSystem, 'connection' | 'stored'> & Partial<Pick<FaultSystem, 'clickhouseCluster'>>

/** Compares the books with `events`, as the running system does all the time, under load or not. */
export async function auditBooks (system: BooksSystem): Promise<BooksAudit> {
  const deadline = performance.now() + ANSWER_MS
  for (;;) {
    try {
      return await compareBooks(system)
    } catch (error) {
      if (!isUnavailable(error) || performance.now() > deadline) throw error
      await delay(500)
    }
  }
}

async function compareBooks ({ connection, stored, clickhouseCluster }: BooksSystem): Promise<BooksAudit> {
  // The tables of all shards are tables of one node to whoever asks.
  const deps = { connection, clickhouse: stored, cluster: '' }
  const replicas = { clickhouse: stored, cluster: (clickhouseCluster ?? null) === null ? '' : LAB_CLUSTER }
  const minute = minuteOfReceipt(Date.now())
  const span = { from: minute - CLOCK_MINUTES, to: minute + CLOCK_MINUTES }
  const { drift, books, unsettled } = await checkBooks(deps, span, {
    countStored: async (each) => {
      await waitForReplicas(replicas)
      return await countStored(deps, each)
    },
    settleMs: SETTLE_MS
  })
  const compared = [...books.totals].filter(([key]) => Number(key.split(':')[1]) >= books.openedAt)
  return {
    drift: drift.reduce((sum, { missing, extra }) => sum + missing + extra, 0),
    compared: compared.reduce((sum, [, { accepted }]) => sum + accepted, 0),
    problems: [
      ...drift.map(describeDrift),
      ...(unsettled === 0 ? [] : [`books: ${unsettled} rows of inserts that did not end in time`]),
      ...(compared.length === 0 ? ['books: nothing could be compared'] : [])
    ]
  }
}

function describeDrift ({ projectId, minute, missing, extra }: Drift): string {
  return `books: ${missing} missing, ${extra} extra in project ${projectId}, received in ${new Date(minute * 60_000).toISOString()}`
}
