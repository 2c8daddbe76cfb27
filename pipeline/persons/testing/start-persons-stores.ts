import { jetstream } from '@nats-io/jetstream'
import { connectNats, type NatsConnection } from '../../../platform/nats/connect-nats.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { ensureStreams } from '../../../platform/nats/prepare-jetstream.ts'
import { createLogger } from '../../../platform/logger.ts'
import { createMetrics } from '../../../platform/metrics.ts'
import { personsPartition, type PersonsUpdate } from '../../../schema/wire/persons-update.ts'
import { PERSONS_PARTITIONS, personsSubject } from '../../../schema/wire/streams.ts'
import { createTestClickHouse, createTestPostgres, type TestClickHouse } from '../../../test/support/test-stores.ts'
import { startTestNats, type TestNats } from '../../../test/support/test-processes.ts'
import type { TestContext } from '../../../test/support/test-context.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { startPersons, type PersonApplier, type PersonsDeps } from '../start-persons.ts'

export const testLogger = createLogger({ component: 'test', level: process.env.MILLRACE_TEST_LOG_LEVEL ?? 'silent' })

/** Real services, with streams and a few projects, for tests of the person applier. */
export interface PersonsStores {
  nats: TestNats
  connection: NatsConnection
  sql: Sql
  databaseUrl: string
  clickhouse: TestClickHouse
  /** Publishes each list of updates as one message per partition; resolves when the stream has them. */
  publish: (...messages: (readonly PersonsUpdate[])[]) => Promise<void>
  publishRaw: (partition: number, payload: string | Uint8Array) => Promise<void>
  /** Starts an applier; stopped with the test if it was not before. */
  start: (deps?: Partial<PersonsDeps>) => PersonApplier
  /** Waits until everything published before is applied. */
  waitUntilApplied: () => Promise<void>
}

/**
 * Starts them; they end with the test.
 *
 * @param options.projects    How many projects there are, with ids from 1.
 * @param options.clickhouse  One shared by tests that do not check the copies. Default: a database of its own,
 *                            the most expensive of the three.
 */
export async function startPersonsStores (
  t: TestContext, options: { projects?: number, clickhouse?: TestClickHouse } = {}
): Promise<PersonsStores> {
  const [nats, { sql, url: databaseUrl }, clickhouse] = await Promise.all([
    startTestNats(t), createTestPostgres(t), options.clickhouse ?? createTestClickHouse(t)
  ])
  const connection = await connectNats({ url: nats.url, name: 'test', logger: testLogger })
  t.teardown(() => connection.close())
  await ensureStreams(connection, { replicas: 1, eventsMaxBytes: 1e9, deadLetterMaxBytes: 1e8 })
  await sql`INSERT INTO projects (id, name) SELECT i, 'project ' || i FROM generate_series(1, ${options.projects ?? 3}) AS i`
  const client = jetstream(connection)
  const last = new Map<number, number>()

  async function publishRaw (partition: number, payload: string | Uint8Array): Promise<void> {
    const { seq } = await client.publish(personsSubject(partition), payload)
    // Answers may overtake each other.
    last.set(partition, Math.max(seq, last.get(partition) ?? 0))
  }

  return {
    nats, connection, sql, databaseUrl, clickhouse, publishRaw,
    async publish (...messages) {
      await Promise.all(messages.flatMap((updates) => [...Map.groupBy(updates, personsPartition)]
        .map(async ([partition, own]) => await publishRaw(partition, JSON.stringify(own)))))
    },
    start (deps = {}) {
      const persons = startPersons({
        connection, sql, clickhouse: clickhouse.client, logger: testLogger, metrics: createMetrics('test'),
        membership: { id: 'only', living: () => ['only'] }, ...deps
      })
      t.teardown(() => persons.stop())
      return persons
    },
    async waitUntilApplied () {
      await waitFor(async () => {
        const rows = await sql<{ partition: number, last_sequence: number }[]>`SELECT * FROM persons_progress`
        const applied = new Map(rows.map((row) => [row.partition, row.last_sequence]))
        for (let partition = 0; partition < PERSONS_PARTITIONS; partition++) {
          if ((applied.get(partition) ?? 0) < (last.get(partition) ?? 0)) return false
        }
        return true
      })
    }
  }
}

/** Waits until everything that was posted is copied to ClickHouse. */
export async function noCopiesWait ({ sql }: PersonsStores): Promise<void> {
  await waitFor(async () => (await sql`SELECT 1 FROM persons_outbox LIMIT 1`).length === 0)
}

/** A person as Postgres has it, with the ids that belong to it. */
export interface StoredPerson {
  uuid: string
  properties: Record<string, unknown>
  isIdentified: boolean
  createdAt: number
  distinctIds: string[]
}

/** All persons of a project, ordered by their first distinct id. */
export async function readPersons (sql: Sql, projectId: number): Promise<StoredPerson[]> {
  const rows = await sql<(Omit<StoredPerson, 'createdAt'> & { createdAt: Date })[]>`
    SELECT uuid, properties, is_identified AS "isIdentified", persons.created_at AS "createdAt",
      array_agg(distinct_id ORDER BY distinct_id COLLATE "C") AS "distinctIds"
    FROM persons LEFT JOIN person_distinct_ids ON person_id = persons.id
    WHERE persons.project_id = ${projectId} GROUP BY persons.id ORDER BY min(distinct_id COLLATE "C")`
  return rows.map((row) => ({ ...row, createdAt: row.createdAt.getTime() }))
}

let made = 0

/** The fields every update has; each call is another event. */
export function origin (projectId = 1): { projectId: number, uuid: string, timestamp: number } {
  made++
  return {
    projectId,
    uuid: `0190b5a0-0000-7000-8000-${made.toString(16).padStart(12, '0')}`,
    timestamp: Date.UTC(2026, 0) + made
  }
}
