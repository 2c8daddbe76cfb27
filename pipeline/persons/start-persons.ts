import { type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { type Logger } from '../../platform/logger.ts'
import { type Metrics } from '../../platform/metrics.ts'
import { PERSONS_PARTITIONS } from '../../schema/streams.ts'
import { deadLetterUpdates } from './persons-outcome.ts'
import { createPersonsMetrics } from './persons-metrics.ts'
import { CopyRunner } from './run-copies.ts'
import { runDeletions } from './run-deletions.ts'
import { runPersonsPartition, type PersonsPartitionState } from './run-partition.ts'

/** Pause between two looks at who else is there, in milliseconds. */
const ASSIGN_MS = 500

const MAX_BATCH_BYTES = 2_097_152

export interface PersonsDeps {
  connection: NatsConnection
  /** Some connections are needed at once: one a busy partition, and one for the copies. */
  sql: Sql
  clickhouse: ClickHouse
  /** Shares the partitions among processes. */
  membership: {
    id: string
    /** The living processes in an order on which all agree; null while that is not known. */
    living: () => readonly string[] | null
  }
  metrics: Metrics
  logger: Logger
  /** Name of the ClickHouse cluster whose nodes delete persons; empty: one node. */
  cluster?: string
  /** Bytes of messages applied in one transaction at most. Default 2 MiB, some thousand updates. */
  maxBatchBytes?: number
  /** Group types of a project; events of further ones are stored, but they become no groups. Default: no limit. */
  maxGroupTypes?: number
  /** Pause between two looks at deletions of persons that are not finished. Default 10 s. */
  lookAtDeletionsMs?: number
}

/** The running person applier of one process. */
export interface PersonApplier {
  /** The partitions that this process applies at the moment. */
  states: () => PersonsPartitionState[]
  /** Why copies wait for ClickHouse, or null. */
  copiesError: () => string | null
  /** Resolves when the transactions under way ended. What was not applied stays in the stream. */
  stop: () => Promise<void>
}

interface Running {
  state: PersonsPartitionState
  aborted: AbortController
  ended: Promise<void>
}

/**
 * Applies what events change about persons and groups, and copies the result to ClickHouse, until stopped:
 *
 * 1. share the partitions among the processes        start-persons.ts
 * 2. read a partition in order, without gaps         partition-reader.ts
 * 3. read the updates of its messages                persons-message.ts
 * 4. begin a transaction, tried again or searched    run-partition.ts, apply/
 * 5. pass over what was applied before               progress/
 * 6. load whom the updates name                      load/
 * 7. change them in memory, in order                 fold/
 * 8. write what changed, and the copies, and commit  write/
 * 9. acknowledge                                     run-partition.ts
 * 10. move the copies to ClickHouse                  run-copies.ts
 *
 * Beside it: finish deletions of persons that were interrupted (run-deletions.ts).
 *
 * Two processes that believe to own a partition for a moment do no harm: see `lockProgress`.
 */
export function startPersons (deps: PersonsDeps): PersonApplier {
  const logger = deps.logger.child({ part: 'persons' })
  const metrics = createPersonsMetrics(deps.metrics)
  const copies = new CopyRunner({ sql: deps.sql, clickhouse: deps.clickhouse, metrics, logger })
  const stopping = new AbortController()
  const deletions = runDeletions({ ...deps, logger }, stopping.signal, deps.lookAtDeletionsMs)
  const running = new Map<number, Running>()

  function assign (): void {
    const living = deps.membership.living()
    if (living === null || living.length === 0) return
    for (let partition = 0; partition < PERSONS_PARTITIONS; partition++) {
      const isMine = living[partition % living.length] === deps.membership.id
      const known = running.get(partition)
      if (isMine && known === undefined) running.set(partition, start(partition))
      if (!isMine && known !== undefined) known.aborted.abort()
    }
  }

  function start (partition: number): Running {
    const aborted = new AbortController()
    const state: PersonsPartitionState = { partition, phase: 'starting', pendingMessages: 0, lastError: null }
    const ended = runPersonsPartition({
      state, connection: deps.connection, sql: deps.sql, metrics, logger, signal: aborted.signal,
      maxBatchBytes: deps.maxBatchBytes ?? MAX_BATCH_BYTES,
      maxGroupTypes: deps.maxGroupTypes ?? Infinity,
      deadLetterUpdates: async (batch, refused) => await deadLetterUpdates(deps.connection, batch, refused),
      waitForRoom: async (signal) => await copies.waitForRoom(signal),
      onCopies: () => copies.notify()
    }).finally(() => running.delete(partition))
    return { state, aborted, ended }
  }

  assign()
  const timer = setInterval(assign, ASSIGN_MS)
  return {
    states: () => [...running.values()].map(({ state }) => state),
    copiesError: () => copies.lastError,
    async stop () {
      clearInterval(timer)
      stopping.abort()
      for (const { aborted } of running.values()) aborted.abort()
      await Promise.all([...running.values()].map(({ ended }) => ended))
      await Promise.all([copies.stop(), deletions])
    }
  }
}
