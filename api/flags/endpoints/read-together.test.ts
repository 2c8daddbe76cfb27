import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import type { CancellableWork } from './circuit-breaker.ts'
import { readTogether } from './person-reader.ts'

interface Reading {
  questions: readonly number[]
  succeed: () => void
  fail: (error: Error) => void
  isCancelled: boolean
}

/** A reader that answers ten times the question, on command. */
function createReader (options = { maxQuestions: 100, maxReadings: 2 }): {
  read: (question: number) => CancellableWork<number>
  readings: Reading[]
} {
  const readings: Reading[] = []
  const read = readTogether((questions: readonly number[]) => {
    const { promise: answer, resolve, reject } = Promise.withResolvers<number[]>()
    const succeed = (): void => resolve(questions.map((n) => n * 10))
    const reading: Reading = { questions, succeed, fail: reject, isCancelled: false }
    readings.push(reading)
    return { answer, cancel: () => { reading.isCancelled = true; reject(new Error('cancelled')) } }
  }, options)
  return { read, readings }
}

t.test('questions of one moment share a reading, and each gets its own answer', async (t) => {
  const { read, readings } = createReader()
  const works = [1, 2, 3].map((n) => read(n))
  await nextTurn()
  t.same(readings.map(({ questions }) => questions), [[1, 2, 3]])

  readings[0]?.succeed()

  t.same(await Promise.all(works.map(async ({ answer }) => await answer)), [10, 20, 30])
})

t.test('no more readings are under way than may be, none is larger than it may be, and nobody is forgotten', async (t) => {
  const { read, readings } = createReader({ maxQuestions: 2, maxReadings: 2 })
  const works = [1, 2, 3, 4, 5].map((n) => read(n))
  await nextTurn()
  t.same(readings.map(({ questions }) => questions), [[1, 2], [3, 4]])
  works.push(read(6))
  await nextTurn()
  t.equal(readings.length, 2)

  readings[1]?.succeed()
  await works[3]?.answer
  await nextTurn()
  t.same(readings[2]?.questions, [5, 6])
  readings[0]?.succeed()
  readings[2]?.succeed()

  t.same(await Promise.all(works.map(async ({ answer }) => await answer)), [10, 20, 30, 40, 50, 60])
})

t.test('a reading is cancelled when the last that waits for it gives up, and its place is free again', async (t) => {
  const { read, readings } = createReader({ maxQuestions: 2, maxReadings: 1 })
  const works = [1, 2, 3].map((n) => read(n))
  for (const { answer } of works) answer.catch(() => {})
  await nextTurn()

  works[0]?.cancel()
  works[0]?.cancel()
  t.notOk(readings[0]?.isCancelled, 'its neighbour still waits')
  works[1]?.cancel()
  t.ok(readings[0]?.isCancelled)
  await t.rejects(works[1]!.answer, { message: 'cancelled' })
  await nextTurn()

  t.same(readings[1]?.questions, [3])
  readings[1]?.succeed()
  t.equal(await works[2]?.answer, 30)
})

t.test('who gives up before the reading is not read', async (t) => {
  const { read, readings } = createReader()
  read(1).cancel()
  const { answer } = read(2)
  await nextTurn()
  t.same(readings[0]?.questions, [2])
  readings[0]?.succeed()
  t.equal(await answer, 20)
})

t.test('a value that the database refuses fails nobody but who sent it; an outage fails all', async (t) => {
  const { read, readings } = createReader()
  const works = [1, 2].map((n) => read(n))
  const settled = Promise.allSettled(works.map(async ({ answer }) => await answer))
  await nextTurn()
  readings[0]?.fail(Object.assign(new Error('invalid byte sequence'), { code: '22021' }))
  await nextTurn()
  t.same(readings.slice(1).map(({ questions }) => questions), [[1], [2]])
  readings[1]?.succeed()
  readings[2]?.fail(Object.assign(new Error('invalid byte sequence'), { code: '22021' }))
  t.match(await settled, [{ value: 10 }, { status: 'rejected', reason: { code: '22021' } }])

  const others = [3, 4].map((n) => read(n))
  const both = Promise.allSettled(others.map(async ({ answer }) => await answer))
  await nextTurn()
  readings[3]?.fail(new Error('connection lost'))
  t.match(await both, [{ status: 'rejected' }, { status: 'rejected' }])
  t.equal(readings.length, 4)
})
