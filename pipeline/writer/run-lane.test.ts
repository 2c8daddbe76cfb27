import t from 'tap'
import { waitFor } from '../../test/support/wait-for.ts'
import { makeEvents, publishEvents } from '../test-frames.ts'
import { countEvents, startTestLane, startTestStores } from '../test-lane.ts'

t.test('stores what is published, once, and lets the stream forget it', async (t) => {
  const stores = await startTestStores(t)
  const lane = await startTestLane(t, stores)

  for (let i = 0; i < 20; i++) await publishEvents(stores.connection, makeEvents(50))
  await waitFor(async () => (await countEvents(stores)).rows === 1000)

  t.same(await countEvents(stores), { rows: 1000, uuids: 1000, volume: 1000, properties: 1000 })
  await lane.stop()
})
