import { randomUUID } from 'node:crypto'
import type { ChooseInsertFault, InsertFault } from '../system/clickhouse-fault-proxy.ts'
import type { Fault } from './fault.ts'
import { pickOne, type Random } from '../../support/random.ts'
import { listDeadLetters } from '../../../api/events/dead-letters/list-dead-letters.ts'
import { listStuck } from './capacity-faults.ts'
import { waitFor } from '../../support/wait-for.ts'

/** Errors that pass by themselves, as ClickHouse words them. */
const BUSY: readonly InsertFault[] = [
  answer(252, 'TOO_MANY_PARTS', 'Too many parts (3000 with average size of 1.00 MiB) in table millrace.events. Merges are processing significantly slower than inserts'),
  answer(241, 'MEMORY_LIMIT_EXCEEDED', '(total) memory limit exceeded: would use 3.60 GiB, maximum: 3.60 GiB'),
  answer(243, 'NOT_ENOUGH_SPACE', 'Cannot reserve 1.00 MiB, not enough space'),
  answer(159, 'TIMEOUT_EXCEEDED', 'Timeout exceeded: elapsed 30.1 seconds, maximum: 30'),
  answer(202, 'TOO_MANY_SIMULTANEOUS_QUERIES', 'Too many simultaneous queries. Maximum: 100'),
  answer(242, 'TABLE_IS_READ_ONLY', 'Table is in readonly mode'),
  answer(999, 'KEEPER_EXCEPTION', 'Coordination error: Connection loss')
]

const UNKNOWN: readonly InsertFault[] = [
  answer(49, 'LOGICAL_ERROR', 'Bad cast from type A to B'),
  answer(4711, 'ERROR_OF_A_LATER_RELEASE', 'Something that this release does not know')
]

const TOO_MANY_PARTITIONS = answer(252, 'TOO_MANY_PARTS',
  'Too many partitions for single INSERT block (more than 100). The limit is controlled by \'max_partitions_per_insert_block\' setting')

/** An insert above this has several messages in it, one below has one message or a piece of one, in bytes. */
const LARGE_INSERT_BYTES = 4096

/** Share of inserts that are spoiled while the network is bad: retries must have a chance to fail as well. */
const BAD_NETWORK_SHARE = 0.7

/** What ClickHouse answers, and what becomes of its answers. */
export const CLICKHOUSE_FAULTS: readonly Fault[] = [
  insertFault('clickhouse-busy', 'inserts fail with 252 (parts), 241, 243, 159, 202, 242, 999',
    (random) => () => pickOne(BUSY, random)),
  insertFault('clickhouse-partitions', 'large inserts fail with 252 (partitions), small ones pass',
    () => (bytes) => bytes > LARGE_INSERT_BYTES ? TOO_MANY_PARTITIONS : undefined),
  insertFault('clickhouse-unknown', 'inserts fail with codes that nobody knows',
    (random) => () => pickOne(UNKNOWN, random)),
  insertFault('clickhouse-lost-answer', 'inserts are stored, but the connection is reset before or in the answer',
    (random) => () => sometimes(random, ['lose answer', 'cut answer'])),
  insertFault('clickhouse-reset', 'the connection is reset before or in the middle of an insert',
    (random) => () => sometimes(random, ['reset', 'cut request'])),
  {
    name: 'failing-view',
    what: 'a materialized view of a user on events fails for some rows or for all, or has lost its source or its table',
    lastsMs: [8000, 2500],
    async inject ({ system, random, note, expect }) {
      const kind = pickOne(['some rows', 'all rows', 'a missing source', 'no table'] as const, random)
      note(kind)
      const name = `view_of_user_${randomUUID().slice(0, 8)}`
      for (const table of ['table', 'source']) await system.command(`CREATE TABLE ${name}_${table} (n UInt64) ENGINE = MergeTree ORDER BY n`)
      await system.command(`CREATE MATERIALIZED VIEW ${name} TO ${name}_table AS SELECT ${VIEWS[kind](name)} AS n FROM events`)
      if (kind === 'a missing source') await system.command(`DROP TABLE ${name}_source SYNC`)
      if (kind === 'no table') await system.command(`DROP TABLE ${name}_table SYNC`)
      return async () => {
        let isNamed = false
        await waitFor(async () => {
          isNamed = (await listStuck(system)).some((part) => part.startsWith('materialized view') && part.includes(name))
          return isNamed
        }, { timeoutMs: 20_000 }).catch(() => {})
        expect(async () => isNamed ? null : `/_health did not name the view ${name}`)
        expect(async () => {
          const letters = (await listDeadLetters(system.connection)).filter(({ error }) => error.includes(name))
          return letters.length === 0 ? null : `${letters.length} events are dead-lettered because of the view ${name}`
        })
        for (const table of [name, `${name}_table`, `${name}_source`]) await system.command(`DROP TABLE IF EXISTS ${table} SYNC`)
      }
    }
  }
]

/** What the views of users read from `events`. */
const VIEWS = {
  'some rows': () => "toUInt64(if(cityHash64(uuid) % 3 = 0, 'three', '3'))",
  'all rows': () => "throwIf(distinct_id != '')",
  'a missing source': (name: string) => `length(distinct_id) IN (SELECT n FROM ${name}_source)`,
  'no table': () => 'length(distinct_id)'
} as const

function insertFault (name: string, what: string, choose: (random: Random) => ChooseInsertFault): Fault {
  return {
    name,
    what,
    lastsMs: [8000, 1500],
    async inject ({ system, random, expect }) {
      const { clickhouse } = system.proxies
      const before = clickhouse.injected
      clickhouse.set(choose(random))
      return async () => {
        // On a busy machine the next insert may be later than that. Whether there was one is looked at in the end.
        await waitFor(() => clickhouse.injected > before, { timeoutMs: 10_000 }).catch(() => {})
        clickhouse.set(undefined)
        const spoiled = clickhouse.injected - before
        expect(async () => spoiled > 0 ? null : 'no insert was spoiled')
      }
    }
  }
}

function sometimes (
  random: Random, kinds: readonly Exclude<InsertFault['kind'], 'answer' | 'store and answer'>[]
): InsertFault | undefined {
  return random() < BAD_NETWORK_SHARE ? { kind: pickOne(kinds, random) } : undefined
}

function answer (code: number, name: string, text: string): InsertFault {
  return { kind: 'answer', code, name, text }
}
