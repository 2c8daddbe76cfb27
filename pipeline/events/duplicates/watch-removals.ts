import { type ClickHouse, LOCAL_DATABASE, queryRows, systemTable } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { ANSWERING_NODES } from '../../../schema/migrate/clickhouse-topology.ts'

/**
 * Notices that rows may have been removed from `events`, by Millrace or by an operator, as ClickHouse lists a mutation
 * before it removes anything, and the last hundred that have ended. It lists no TRUNCATE, dropped parts, or restores.
 */
export class RemovalWatch {
  readonly #read: () => Promise<{ name: string, isDone: number }[]>
  /** Mutations that had ended at the last look. */
  #ended: ReadonlySet<string> | null = null
  #removedAt = -Infinity

  /** @param cluster  Name of the ClickHouse cluster; empty: one node. */
  constructor (clickhouse: ClickHouse, cluster: string) {
    // By their time, too: each shard numbers its own.
    this.#read = async () => await queryRows(clickhouse, `
      SELECT concat(mutation_id, ' ', toString(create_time)) AS name, min(is_done) AS isDone
      FROM ${systemTable(cluster, 'mutations')} WHERE database = ${LOCAL_DATABASE} AND table = 'events' GROUP BY name
      SETTINGS ${ANSWERING_NODES}`)
  }

  /** Whether some of what was stored by this time, `performance.now()`, may be gone. @throws without ClickHouse. */
  async mayLack (storedBy: number): Promise<boolean> {
    if (this.#removedAt < storedBy) await this.look()
    return this.#removedAt >= storedBy
  }

  /** To be called when stored rows are gone without a mutation. */
  notice (): void {
    this.#removedAt = performance.now()
  }

  /** To be called before stored events are read into a memory. */
  async look (): Promise<void> {
    const mutations = await this.#read()
    const ended = new Set(mutations.filter(({ isDone }) => isDone === 1).map(({ name }) => name))
    if (ended.size < mutations.length || this.#ended?.isSupersetOf(ended) === false) this.notice()
    // One that is not listed, as its node is away, is not new when it is listed again.
    this.#ended = ended.union(this.#ended ?? ended)
  }
}
