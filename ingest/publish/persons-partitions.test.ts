import t from 'tap'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import type { OutgoingMessage } from './acknowledged-publisher.ts'
import { createPersonsPartitions, type EncodedUpdate, encodeUpdate, type PersonsPartitions, UpdateJoiner } from './persons-partitions.ts'

const origin = { projectId: 1, uuid: '0193a5b2-7c1d-7e8f-9abc-def012345678', timestamp: 1_790_000_000_000 }
const build = (n: number, text = ''): PersonsUpdate => ({ kind: 'person', ...origin, distinctId: 'd', set: { n, text } })

interface TestPartitions extends PersonsPartitions {
  messages: OutgoingMessage[]
  arrive: (() => void)[]
}

/** Partitions whose messages arrive when the test says so. */
function createPartitions (): TestPartitions {
  const messages: OutgoingMessage[] = []
  const arrive: (() => void)[] = []
  const partitions = createPersonsPartitions({
    nextMessageId: () => 'm',
    publish: async (message) => {
      messages.push(message)
      await new Promise<void>((resolve) => arrive.push(resolve))
    }
  })
  return { ...partitions, messages, arrive }
}

const numbersOf = ({ payload }: OutgoingMessage): unknown[] =>
  (JSON.parse(Buffer.from(payload).toString()) as { set: { n: number } }[]).map(({ set }) => set.n)
const turn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve))

t.test('joined updates keep their place among the others of the partition, as messages of their own', async (t) => {
  const { append, appendJoined, messages, arrive } = createPartitions()
  const joiner = new UpdateJoiner()
  for (const n of [3, 4]) joiner.append(encodeUpdate(build(n)))
  const done = [append(encodeUpdate(build(1))), append(encodeUpdate(build(2)))]
  for (const joined of joiner.finish()) done.push(appendJoined(1, joined))
  done.push(append(encodeUpdate(build(5))), append(encodeUpdate(build(6))))

  for (let sent = 0; sent < 3; sent++) {
    await turn()
    t.equal(messages.length, sent + 1, 'one is in flight at a time')
    arrive[sent]!()
  }
  await Promise.all(done)

  t.same(messages.map(numbersOf), [[1, 2], [3, 4], [5, 6]])
})

t.test('updates of other projects pass the messages of a large body, and projects with one take turns', async (t) => {
  const { append, appendJoined, messages, arrive } = createPartitions()
  const ofProject = (projectId: number, n: number): EncodedUpdate => encodeUpdate({ ...build(n), projectId })
  const join = async (projectId: number, n: number): Promise<void> => {
    const joiner = new UpdateJoiner()
    joiner.append(ofProject(projectId, n))
    for (const joined of joiner.finish()) await appendJoined(projectId, joined)
  }
  const done = [join(9, 1), join(9, 2), join(9, 3), append(ofProject(9, 4))]
  await turn()
  // While the first message is in flight.
  done.push(append(ofProject(1, 11)), append(ofProject(17, 21)), join(17, 22), append(ofProject(17, 23)))
  for (let sent = 0; sent < 8; sent++) {
    t.equal(messages.length, sent + 1, 'one is in flight at a time')
    if (sent === 2) done.push(append(ofProject(1, 12)), append(ofProject(9, 5)))
    arrive[sent]!()
    await turn()
  }
  await Promise.all(done)

  t.same(messages.map(numbersOf), [[1], [11, 21], [22], [12], [2], [23], [3], [4, 5]])
})

t.test('a large body that comes while others are sent does not pass earlier updates of its project', async (t) => {
  const { append, appendJoined, messages, arrive } = createPartitions()
  const joiner = new UpdateJoiner()
  joiner.append(encodeUpdate(build(3)))
  const done = [append(encodeUpdate(build(1)))]
  await turn()
  done.push(append(encodeUpdate(build(2))), ...joiner.finish().map(async (joined) => await appendJoined(1, joined)))
  for (let sent = 0; sent < 3; sent++) {
    arrive[sent]!()
    await turn()
  }
  await Promise.all(done)

  t.same(messages.map(numbersOf), [[1], [2], [3]])
})

t.test('a message of updates is bounded in bytes, joined or not', async (t) => {
  const { append, messages, arrive } = createPartitions()
  const updates = Array.from({ length: 5 }, (_, n) => encodeUpdate(build(n, '日'.repeat(60_000))))
  const joiner = new UpdateJoiner()
  for (const update of updates) joiner.append(update)
  const done = updates.map(append)
  for (let sent = 0; sent < 3; sent++) {
    await turn()
    arrive[sent]!()
  }
  await Promise.all(done)

  t.same(messages.map(numbersOf), [[0, 1], [2, 3], [4]])
  t.same(joiner.finish().map(({ payload }) => Buffer.from(payload)), messages.map(({ payload }) => payload))
})

t.test('a group type counts as announced when the message with it has arrived', async (t) => {
  const { appendJoined, isAnnounced, arrive } = createPartitions()
  const joiner = new UpdateJoiner()
  joiner.append(encodeUpdate({ kind: 'groupType', ...origin, groupType: 'company' }))
  const done = joiner.finish().map(async (joined) => await appendJoined(1, joined))
  await turn()
  t.notOk(isAnnounced(1, 'company'))

  arrive[0]!()
  await Promise.all(done)

  t.ok(isAnnounced(1, 'company'))
})
