import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { isFlushedWithin, watchFlushes } from '../../test/support/watch-flushes.ts'
import { startNatsServer } from './start-nats-server.ts'

t.test('between a message and its acknowledgement nats-server flushes the block that has it', async (t) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-flush-'))
  t.teardown(async () => await rm(dataDir, { recursive: true, force: true }))
  const server = await startNatsServer({ dataDir, port: 0 })
  t.teardown(async () => await server.stop())
  const connection = await connect({ servers: server.url })
  t.teardown(async () => await connection.close())
  await (await jetstreamManager(connection)).streams.add({ name: EVENTS_STREAM, subjects: ['events.>'] })
  const watch = await watchFlushes(t, server.pid)
  const options = watch === null ? { skip: 'this machine has no strace, or does not let it look at a process' } : {}

  const publishes: { from: number, to: number }[] = []
  for (let message = 0; message < 10; message++) {
    const from = Date.now()
    await jetstream(connection).publish('events.live.0', Buffer.alloc(1000))
    publishes.push({ from, to: Date.now() })
  }

  const flushes = await watch?.end() ?? []
  const block = new RegExp(`/streams/${EVENTS_STREAM}/msgs/\\d+\\.blk$`)
  t.same(publishes.filter((publish) => !isFlushedWithin(flushes, block, publish)), [], options)
})
