/** The applier of persons of one simulated process, the updates that clients send it, and what it must make of them. */
import { isDeepStrictEqual } from 'node:util'
import { createPersonsMetrics } from '../../pipeline/persons/persons-metrics.ts'
import { runPersonsPartition } from '../../pipeline/persons/persons-partition.ts'
import { CopyRunner } from '../../pipeline/persons/run-copies.ts'
import { applyToModel } from '../../pipeline/persons/testing/reference-model.ts'
import type { StoredPerson } from '../../pipeline/persons/testing/start-persons-stores.ts'
import { PartitionSupervisor, type PartitionSupervisorOptions } from '../../pipeline/stream/partition-supervisor.ts'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Logger } from '../../platform/logger.ts'
import { createMetrics } from '../../platform/metrics.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import type { CopyRow } from '../../schema/wire/persons-copies.ts'
import { connectPostgres } from '../../platform/postgres/connect-postgres.ts'
import { type MergeUpdate, personsPartition, type PersonUpdate } from '../../schema/wire/persons-update.ts'
import { pickOne, type Random } from '../support/random.ts'
import type { FakePostgres } from './fake-postgres.ts'
import { WORLD_BEGAN_AT } from './world-constants.ts'

export type Update = PersonUpdate | MergeUpdate

const PROJECT = 1
const metrics = createPersonsMetrics(createMetrics('simulation'))

/** @returns how to end it as SIGTERM does. Groups, deletions and dead letters are not simulated. */
export function startSimulatedPersons ({ connection, clickhouse, membership, logger }: {
  connection: NatsConnection, clickhouse: ClickHouse, logger: Logger
  membership: PartitionSupervisorOptions<number>['membership']
}): () => Promise<void> {
  const sql = connectPostgres({ url: 'postgres://simulated' })
  const copies = new CopyRunner({ sql, clickhouse, metrics, logger })
  const partition = personsPartition({ projectId: PROJECT } as Update)
  const supervisor = new PartitionSupervisor({
    partitions: new Map([[`persons ${partition}`, partition]]),
    chooseOwner: (_, members) => members[partition % members.length],
    membership,
    logger,
    runPartition: async (_, control) => await runPersonsPartition({
      ...control, partition, connection, sql, metrics, logger, maxBatchBytes: 2_097_152, maxGroupTypes: Infinity,
      deadLetterUpdates: async () => [],
      waitForRoom: async (signal) => await copies.waitForRoom(signal),
      onCopies: () => copies.notify()
    })
  })
  supervisor.start()
  return async () => {
    await supervisor.stop()
    await copies.stop()
    await sql.end({ timeout: 1 })
  }
}

/** An update that nobody has sent, of one of a few persons, so that they meet all the time. */
export function makeUpdate (number: number, random: Random): Update {
  const id = (): string => `user-${Math.floor(random() * 6)}`
  const properties = (): Record<string, unknown> => ({ [pickOne(['plan', 'name', 'city'], random)]: number })
  const common = {
    projectId: PROJECT,
    uuid: `01900000-0000-7000-8000-${number.toString(16).padStart(12, '0')}`,
    timestamp: WORLD_BEGAN_AT - Math.floor(random() * 1e6),
    distinctId: id(),
    ...(random() < 0.7 && { set: properties() }),
    ...(random() < 0.3 && { setOnce: properties() })
  }
  if (random() < 0.6) return { ...common, kind: 'person', ...(random() < 0.2 && { identify: true }) }
  return { ...common, kind: 'merge', otherDistinctId: id(), how: pickOne(['identify', 'alias', 'force'], random) }
}

/** @param updates  In the order of the stream, as often as it has them. */
export function comparePersons (
  updates: readonly Update[], postgres: FakePostgres, copies: ReadonlyMap<string, CopyRow>
): string[] {
  const expected = applyToModel(updates)
  const rows = (table: string): CopyRow[] => [...copies]
    .filter(([key, { is_deleted: isDeleted }]) => key.startsWith(`${table} `) && isDeleted === 0).map(([, row]) => row)
  const ids = rows('person_distinct_ids')
  const copied = rows('persons').map(({ person_id: uuid, properties, is_identified: isIdentified, created_at: createdAt }) => ({
    uuid, properties, isIdentified, createdAt: Date.parse(`${String(createdAt)}Z`),
    distinctIds: ids.filter(({ person_id: person }) => person === uuid).map(({ distinct_id: id }) => String(id))
  }) as StoredPerson)
  const wrong = Object.entries({ Postgres: postgres.persons(), ClickHouse: copied })
    .filter(([, persons]) => !isDeepStrictEqual(sortPersons(persons), sortPersons(expected)))
    .map(([store, persons]) => `${store} has ${JSON.stringify(persons)}, not ${JSON.stringify(expected)}`)
  const overrides = new Map(rows('person_overrides').map((row) => [row.old_person_id, row.person_id]))
  for (const { uuid, distinctIds } of expected) {
    for (const id of distinctIds) {
      const computed = personUuid(PROJECT, id)
      if ((overrides.get(computed) ?? computed) !== uuid) wrong.push(`events of ${id} do not lead to ${uuid}`)
    }
  }
  return wrong
}

function sortPersons (persons: readonly StoredPerson[]): StoredPerson[] {
  return persons.map((person) => ({ ...person, distinctIds: person.distinctIds.toSorted() }))
    .sort((a, b) => a.uuid < b.uuid ? -1 : 1)
}
