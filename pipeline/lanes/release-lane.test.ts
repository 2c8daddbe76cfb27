import t from 'tap'
import { waitFor } from '../../test/support/wait-for.ts'
import { makeEvents, publishEvents } from '../testing/publish-events.ts'
import { startTestLane, startTestStores, waitUntilSettled, type TestStores } from '../testing/start-test-lane.ts'
import { openLaneRecords, type LaneRecords } from './lane-records.ts'

const LANE = { eventClass: 'live', number: 0 } as const

interface SwitchedRecords {
  real: LaneRecords
  /** What a lane gets. */
  records: LaneRecords
  /** Questions without an answer so far. */
  refused: () => number
  setAway: (isAway: boolean) => void
}

/** Lane records that can be out of reach. */
async function openSwitchedRecords ({ connection }: TestStores): Promise<SwitchedRecords> {
  const real = await openLaneRecords(connection, { replicas: 1 })
  let isAway = false
  let refused = 0
  const pass = async <T>(ask: () => Promise<T>): Promise<T> => {
    if (!isAway) return await ask()
    refused++
    throw new Error('timeout')
  }
  return {
    real,
    records: {
      list: async () => await pass(async () => await real.list()),
      read: async (lane) => await pass(async () => await real.read(lane)),
      replace: async (lane, record, revision) => await pass(async () => await real.replace(lane, record, revision))
    },
    refused: () => refused,
    setAway: (next) => { isAway = next }
  }
}

t.test('a lane that is given up while NATS does not answer is released as soon as it does', async (t) => {
  const stores = await startTestStores(t)
  const { real, records, refused, setAway } = await openSwitchedRecords(stores)
  const lane = await startTestLane(t, stores, { records, giveUp: new AbortController().signal })
  await publishEvents(stores.connection, makeEvents(3))
  await waitUntilSettled(stores)

  setAway(true)
  const stopped = lane.stop()
  await waitFor(() => refused() > 3)
  t.equal((await real.read(LANE)).record?.owner, 'test')
  setAway(false)
  await stopped

  t.equal((await real.read(LANE)).record?.owner, '')
})

t.test('a process that ends does not wait for NATS', async (t) => {
  const stores = await startTestStores(t)
  const { records, refused, setAway } = await openSwitchedRecords(stores)
  const giveUp = new AbortController()
  const lane = await startTestLane(t, stores, { records, giveUp: giveUp.signal })
  await waitFor(() => lane.state.phase === 'running')

  setAway(true)
  const stopped = lane.stop()
  await waitFor(() => refused() > 1)
  giveUp.abort()

  await stopped
  t.ok(refused() > 1)
})
