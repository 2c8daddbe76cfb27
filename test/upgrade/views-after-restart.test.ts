import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { startClickHouse } from '../../embedded/supervisor/start-clickhouse.ts'
import { createInsertFrames, INSERT_SETTINGS, INSERT_SETTINGS_VERSION } from '../../pipeline/events/insert/insert-frames.ts'
import { encodePayload, makeEvents } from '../../pipeline/testing/publish-events.ts'
import { connectClickHouse, createClickHouseAgent } from '../../platform/clickhouse/connect-clickhouse.ts'
import { frameOf } from '../../schema/wire/frame-message.ts'
import { migrateClickHouse } from '../../schema/migrate/migrate-clickhouse.ts'

t.test('views recognise after the first restart what they stored before it', async (t) => {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'millrace-attach-'))
  const start = async (port: number): ReturnType<typeof startClickHouse> =>
    await startClickHouse({ dataDir, port, password: 'product', analystPassword: 'analyst' })
  let service = await start(0)
  const agent = createClickHouseAgent(service.url)
  const client = connectClickHouse({ url: service.url })
  t.teardown(async () => {
    await client.close()
    agent.destroy()
    await service.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })
  await migrateClickHouse(service.url, {})
  const frame = frameOf(encodePayload(makeEvents(400)), 400)
  const settings = INSERT_SETTINGS[INSERT_SETTINGS_VERSION]!
  const insert = createInsertFrames({ url: service.url, agent })

  await insert({ frames: [frame], token: 'first', settings })
  service.kill('SIGKILL')
  await service.exited
  service = await start(service.port)
  await insert({ frames: [frame], token: 'first', settings })

  const answer = await client.query({
    query: `SELECT toUInt32((SELECT count() FROM events)) AS events,
      toUInt32((SELECT sum(volume) FROM event_volumes_by_day)) AS volume,
      toUInt32((SELECT sum(count) FROM event_property_counts WHERE property = 'amount' AND kind = 'event')) AS properties`,
    format: 'JSONEachRow'
  })
  t.same(await answer.json(), [{ events: 400, volume: 400, properties: 400 }])
})
