/** Closes the source of a move: its rows no longer change, and new events wait in the durable stream. */
import { setTimeout as delay } from 'node:timers/promises'
import { MillraceError } from '../../engines/errors.ts'
import { onCluster, queryRows, systemTable } from '../../platform/clickhouse/connect-clickhouse.ts'
import { closeTable, findInserts, findMutations, findOpen, listClosed, openTable } from '../../schema/move/move-statements.ts'
import { MOVED_TABLES, VIEW_FED_TABLES } from '../../schema/move/moved-tables.ts'
import type { MoveStore } from './store.ts'

/** Longest wait for inserts and deletions under way, in milliseconds. */
const SETTLE_MS = 120_000
const POLL_MS = 250

/** Tables that are inserted into, and those that views fill of these inserts. */
const DIRECT = ['events', ...MOVED_TABLES.map(({ name }) => name)]
const FED_BY_VIEWS = VIEW_FED_TABLES.map(({ name }) => name)
const TABLES = [...DIRECT, ...FED_BY_VIEWS]

export async function isClosed (store: MoveStore): Promise<boolean> {
  return (await ask(store, ['tables', listClosed])).length > 0
}

export async function openStore (store: MoveStore): Promise<void> {
  for (const { name } of await ask(store, ['tables', listClosed])) {
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
  const close = async (tables: readonly string[]): Promise<void> => {
    for (const table of tables) await store.local.command({ query: closeTable(table, onCluster(store.cluster)) })
  }
  await close(DIRECT)
  // An insert that began before stores its rows first. If its views found their tables closed then, nothing would ever
  // count these rows: the pipeline finds them in the target, and does not insert them again.
  await waitForNone(store, 'inserts into the source are still running', ['processes', findInserts])
  await close(FED_BY_VIEWS)
  // A node that was away does it when it is back, and takes inserts until then.
  await waitForNone(store, 'a node of the source is still open', ['tables', findOpen])
  await waitForNone(store, 'inserts into the source are still running', ['processes', findInserts])
  await waitForNone(store, 'a deletion in the source is still running', ['mutations', findMutations])
}

/** Resolves when no insert into a store is under way any more, such as that of a move that was killed. */
export async function waitForInserts (store: MoveStore): Promise<void> {
  await waitForNone(store, `${store.name} receives inserts from another client: is it in use?`, ['processes', findInserts])
}

/** A system table of all nodes, and the query on it. */
type Question = [table: string, query: (table: string) => string]

async function ask ({ local, cluster, database }: MoveStore, [table, query]: Question): Promise<{ name: string }[]> {
  return await queryRows(local, query(systemTable(cluster, table)), { database, names: TABLES })
}

async function waitForNone (store: MoveStore, what: string, question: Question): Promise<void> {
  const deadline = performance.now() + SETTLE_MS
  while ((await ask(store, question)).length > 0) {
    if (performance.now() > deadline) throw new MillraceError('MILLRACE_MOVE_FAILED', what)
    await delay(POLL_MS)
  }
}
