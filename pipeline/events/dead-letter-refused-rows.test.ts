import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import t from 'tap'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createPipelineMetrics } from '../pipeline-metrics.ts'
import type { Partition } from '../stream/find-partitions.ts'
import { PartitionState } from '../stream/partition-state.ts'
import { deadLetterRows } from './dead-letter-refused-rows.ts'
import type { PartitionMessage } from './events-reader.ts'

t.test('keeps what it cannot dead-letter: it waits while no stream takes the dead letter, and reports that when it stops', async (t) => {
  const { url } = await startTestNats(t)
  const logger = pino({ level: 'silent' })
  const connection = await connectNats({ url, name: 'test', logger })
  t.teardown(() => connection.close())
  const partition: Partition = { eventClass: 'live', number: 0 }
  const state = new PartitionState('live.0')
  const stop = new AbortController()
  const message = { sequence: 1, headers: {}, payload: Buffer.from('garbage') } as unknown as PartitionMessage

  const taken = deadLetterRows(
    { partition, connection, state, metrics: createPipelineMetrics(() => [state]), logger, stop: stop.signal },
    { message, error: null, token: 'life:live.0:1-1' })
  await waitFor(() => state.phase === 'retrying' && state.lastError !== null)
  t.notOk(state.isHealthy(Date.now()))
  t.equal(await Promise.race([taken, delay(0, 'still waits')]), 'still waits')
  stop.abort()

  t.equal(await taken, false)
})
