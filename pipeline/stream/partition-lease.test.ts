import t from 'tap'
import { waitFor } from '../../test/support/wait-for.ts'
import { makeEvents, publishEvents } from '../testing/publish-events.ts'
import { silentLogger, startTestPartition, startTestStores, type TestStores, waitUntilStored } from '../testing/start-test-partition.ts'
import { claimPartition, releasePartition } from './partition-lease.ts'
import { FencedError, newPartitionRecord, openPartitionRecords, type PartitionRecords } from './partition-records.ts'

const PARTITION = { eventClass: 'live', number: 0 } as const

interface SwitchedRecords {
  real: PartitionRecords
  /** What a partition gets. */
  records: PartitionRecords
  /** Requests that failed so far. */
  refused: () => number
  setUnavailable: (isUnavailable: boolean) => void
}

/** Partition records that can be out of reach. */
async function openSwitchedRecords ({ connection }: TestStores): Promise<SwitchedRecords> {
  const real = await openPartitionRecords(connection, { replicas: 1 })
  let isUnavailable = false
  let refused = 0
  const pass = async <T>(ask: () => Promise<T>): Promise<T> => {
    if (!isUnavailable) return await ask()
    refused++
    throw new Error('timeout')
  }
  return {
    real,
    records: {
      list: async () => await pass(async () => await real.list()),
      read: async (partition) => await pass(async () => await real.read(partition)),
      replace: async (partition, record, revision) =>
        await pass(async () => await real.replace(partition, record, revision))
    },
    refused: () => refused,
    setUnavailable: (next) => { isUnavailable = next }
  }
}

t.test('a partition that is given up while NATS does not answer is released as soon as it does', async (t) => {
  const stores = await startTestStores(t)
  const { real, records, refused, setUnavailable } = await openSwitchedRecords(stores)
  const partition = await startTestPartition(t, stores, { records, giveUp: new AbortController().signal })
  await publishEvents(stores.connection, makeEvents(3))
  await waitUntilStored(stores)

  setUnavailable(true)
  const stopped = partition.stop()
  await waitFor(() => refused() > 3)
  t.equal((await real.read(PARTITION)).record?.owner, 'test')
  setUnavailable(false)
  await stopped

  t.equal((await real.read(PARTITION)).record?.owner, '')
})

t.test('a process that ends does not wait for NATS', async (t) => {
  const stores = await startTestStores(t)
  const { records, refused, setUnavailable } = await openSwitchedRecords(stores)
  const giveUp = new AbortController()
  const partition = await startTestPartition(t, stores, { records, giveUp: giveUp.signal })
  await waitFor(() => partition.state.phase === 'running')

  setUnavailable(true)
  const stopped = partition.stop()
  await waitFor(() => refused() > 1)
  giveUp.abort()

  await stopped
  t.ok(refused() > 1)
})

t.test('a claim that NATS stores only after the release of its process is refused', async (t) => {
  const { connection } = await startTestStores(t)
  const records = await openPartitionRecords(connection, { replicas: 1 })
  const release = async (): Promise<void> => await releasePartition({
    partition: PARTITION, owner: 'test', records, logger: silentLogger, giveUp: new AbortController().signal
  })
  const claim = { ...newPartitionRecord('life'), owner: 'test' }

  await release()
  await t.rejects(records.replace(PARTITION, claim, 0), FencedError, 'the first one of all')
  t.equal((await records.read(PARTITION)).record, null)
  t.equal((await records.list()).size, 0)

  // One that is alive, too: it may have been taken for dead when it was claimed.
  for (const owner of ['', 'other']) {
    const revision = await records.replace(PARTITION, { ...claim, owner }, (await records.read(PARTITION)).revision)
    await release()
    await t.rejects(records.replace(PARTITION, claim, revision), FencedError, `of a partition of "${owner}"`)
    t.equal((await records.read(PARTITION)).record?.owner, owner)
  }
})

t.test('a claim that NATS stores between the two steps of a release is released, too', async (t) => {
  const { connection } = await startTestStores(t)
  const real = await openPartitionRecords(connection, { replicas: 1 })
  for (const owner of ['test', 'other']) {
    let isFirst = true
    const records: PartitionRecords = {
      ...real,
      read: async (partition) => await real.read(partition),
      async replace (partition, record, revision) {
        if (isFirst) await real.replace(partition, { ...newPartitionRecord('life'), owner }, revision)
        isFirst = false
        return await real.replace(partition, record, revision)
      }
    }
    await releasePartition({ partition: PARTITION, owner: 'test', records, logger: silentLogger, giveUp: new AbortController().signal })
    t.equal((await real.read(PARTITION)).record?.owner, owner === 'test' ? '' : 'other')
  }
})

t.test('a partition that is refused releases a record that names its own process', async (t) => {
  const stores = await startTestStores(t)
  const records = await openPartitionRecords(stores.connection, { replicas: 1 })
  const { state } = await startTestPartition(t, stores, { records })
  await waitFor(() => state.phase === 'running')

  // As a process does that took this one for dead, and hands the partition back.
  const { record, revision } = await records.read(PARTITION)
  await records.replace(PARTITION, record, revision)
  await publishEvents(stores.connection, makeEvents(1))

  await waitFor(async () => (await records.read(PARTITION)).record?.owner === '')
  t.equal(state.phase, 'standby')
})

t.test('a claim that is stored after its process found another owner is refused', async (t) => {
  const stores = await startTestStores(t)
  const real = await openPartitionRecords(stores.connection, { replicas: 1 })
  const revision = await real.replace(PARTITION, { ...newPartitionRecord('life'), owner: 'other' }, 0)
  let isOtherAlive = false
  let storeLate = async (): Promise<unknown> => await Promise.resolve()
  const { state } = await startTestPartition(t, stores, {
    isAlive: () => isOtherAlive,
    records: {
      ...real,
      async replace (...claim) {
        if (isOtherAlive) return await real.replace(...claim)
        isOtherAlive = true
        storeLate = async () => await real.replace(...claim)
        throw new Error('timeout')
      }
    }
  })
  await waitFor(async () => state.phase === 'standby' && (await real.read(PARTITION)).revision > revision)

  await t.rejects(storeLate(), FencedError)
  t.equal((await real.read(PARTITION)).record?.owner, 'other')
})

t.test('a process that follows another owner learns so before its claim, whose answer may be lost', async (t) => {
  const { connection } = await startTestStores(t)
  const records = await openPartitionRecords(connection, { replicas: 1 })
  let takeOvers = 0
  let isLost = false
  const claim = async (owner: string) => await claimPartition(PARTITION, {
    connection,
    records: {
      ...records,
      replace: async (...change) => {
        const revision = await records.replace(...change)
        if (isLost) throw new Error('timeout')
        return revision
      }
    },
    owner,
    isAlive: () => false,
    onTakeOver: () => takeOvers++
  })

  await claim('first')
  await claim('first')
  t.equal(takeOvers, 1, 'its own partition is no other one')
  await claim('second')
  t.equal(takeOvers, 2)
  isLost = true
  await t.rejects(claim('first'), { message: 'timeout' })
  t.equal(takeOvers, 3)
})
