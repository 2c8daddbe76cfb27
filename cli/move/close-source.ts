/** Closes the source of a move: what is stored there stays as it is, and whatever comes waits where it is durable. */
import { setTimeout as delay } from 'node:timers/promises'
import { MillraceError } from '../../engines/errors.ts'
import { onCluster, queryRows, systemTable } from '../../platform/clickhouse/connect-clickhouse.ts'
import { closeTable, countInserts, countMutations, LIST_CLOSED, openTable } from '../../schema/move/move-statements.ts'
import { MOVED_TABLES, VIEW_FED_TABLES } from '../../schema/move/moved-tables.ts'
import type { MoveStore } from './store.ts'

/** Longest wait for inserts and deletions under way, in milliseconds. */
const SETTLE_MS = 120_000
const POLL_MS = 250

/** Tables of views before `events`: an insert that finds one of them closed has counted nothing anywhere. */
const TABLES = [...VIEW_FED_TABLES, { name: 'events' }, ...MOVED_TABLES].map(({ name }) => name)

export async function isClosed ({ local }: MoveStore): Promise<boolean> {
  return (await queryRows(local, LIST_CLOSED)).length > 0
}

export async function openStore (store: MoveStore): Promise<void> {
  for (const { name } of await queryRows<{ name: string }>(store.local, LIST_CLOSED)) {
    await store.local.command({ query: openTable(name, onCluster(store.cluster)) })
  }
}

/**
 * Closes a store, and waits until nothing that was begun there changes it. What an insert stored of which the pipeline
 * does not know is copied, and found in the target when the pipeline looks its rows up.
 *
 * @throws {MillraceError} when that does not come to pass within two minutes.
 */
export async function closeStore (store: MoveStore): Promise<void> {
  for (const table of TABLES) await store.local.command({ query: closeTable(table, onCluster(store.cluster)) })
  await waitFor('inserts into the source do not end', async () => await countRunning(store, 'processes', countInserts) === 0)
  await waitFor('a deletion in the source does not end', async () => await countRunning(store, 'mutations', countMutations) === 0)
}

/** Resolves when no insert into a store is under way any more, such as that of a move that was killed. */
export async function waitForInserts (store: MoveStore): Promise<void> {
  await waitFor(`${store.name} takes inserts of somebody else: is it in use?`, async () => await countRunning(store, 'processes', countInserts) === 0)
}

async function countRunning (
  { local, cluster, database }: MoveStore, table: string, count: (table: string) => string
): Promise<number> {
  return Number((await queryRows<{ n: number }>(local, count(systemTable(cluster, table)), { database }))[0]?.n)
}

async function waitFor (what: string, isDone: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + SETTLE_MS
  while (!await isDone()) {
    if (performance.now() > deadline) throw new MillraceError('MILLRACE_MOVE_FAILED', what)
    await delay(POLL_MS)
  }
}
