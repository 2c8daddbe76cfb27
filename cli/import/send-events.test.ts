import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import t from 'tap'
import { createSender } from './send-events.ts'

t.test('a request that is retried is not overtaken where events change persons', async (t) => {
  const accepted: string[] = []
  let answers = 0
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      response.statusCode = answers++ === 0 ? 503 : 200
      if (response.statusCode === 200) accepted.push((body as { batch: { uuid: string }[] }).batch[0]!.uuid)
      response.end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })

  const marks: number[] = []
  const sender = createSender({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, projectKey: 'phc', personsFrom: 'events', eventsPerSecond: 0,
    onAcknowledged: (mark) => marks.push(mark)
  })
  for (let i = 0; i < 3000; i++) {
    await sender.add({ uuid: `of ${Math.floor(i / 1000)}`, event: '$set', distinct_id: 'ann', timestamp: 0, properties: { $set: {} }, json: '{}' }, i + 1)
  }
  await sender.finish()

  t.same(accepted, ['of 0', 'of 1', 'of 2'])
  t.same(marks, [1000, 2000, 3000])
})

t.test('a slow import sends each second what it may', async (t) => {
  const sizes: number[] = []
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      sizes.push((body as { batch: object[] }).batch.length)
      response.end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const sender = createSender({ url, projectKey: 'phc', personsFrom: 'events', eventsPerSecond: 10, onAcknowledged: () => {} })
  for (let i = 0; i < 15; i++) await sender.add({ uuid: String(i), event: 'seen', distinct_id: 'ann', timestamp: 0, properties: {}, json: '{}' }, i + 1)
  await sender.finish()

  t.same(sizes, [10, 5])
})

t.test('a request that is too large for a limit on the way is sent in halves, in order', async (t) => {
  const accepted: string[] = []
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      const { batch } = body as { batch: { uuid: string }[] }
      response.statusCode = batch.length > 300 ? 413 : 200
      if (response.statusCode === 200) accepted.push(...batch.map(({ uuid }) => uuid))
      response.end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })
  const marks: number[] = []
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const sender = createSender({ url, projectKey: 'phc', personsFrom: 'events', eventsPerSecond: 0, onAcknowledged: (mark) => marks.push(mark) })
  for (let i = 0; i < 1000; i++) await sender.add({ uuid: String(i), event: '$set', distinct_id: 'ann', timestamp: 0, properties: { $set: {} }, json: '{}' }, i + 1)
  await sender.finish()

  t.same(accepted, Array.from({ length: 1000 }, (_, i) => String(i)))
  t.same(marks, [1000])
})

t.test('an event that is too large for a limit on the way is refused by itself, with the reason', async (t) => {
  const accepted: string[] = []
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      const uuids = (body as { batch: { uuid: string }[] }).batch.map(({ uuid }) => uuid)
      response.statusCode = uuids.includes('large') ? 413 : 200
      if (response.statusCode === 200) accepted.push(...uuids)
      response.end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })
  const [marks, refused] = [[] as number[], [] as unknown[]]
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const sender = createSender({
    url, projectKey: 'phc', personsFrom: 'events', eventsPerSecond: 0,
    onAcknowledged: (mark) => marks.push(mark), onRefused: (...of) => refused.push(of)
  })
  for (const [i, uuid] of ['one', 'large', 'three', 'four', 'five'].entries()) {
    await sender.add({ uuid, event: '$set', distinct_id: 'ann', timestamp: 0, properties: {}, json: '{}' }, i + 1)
  }
  t.ok(await sender.finish() > 0)

  t.same(accepted, ['one', 'three', 'four', 'five'])
  t.match(refused, [[2, { uuid: 'large', event: '$set', distinct_id: 'ann' }, `refused as too large by ${url}/batch/`]])
  t.same(marks, [5])
})

t.test('events that change no person go beside a request that does, and acknowledged events have no gap', async (t) => {
  const accepted: string[] = []
  const answerLast: (() => void)[] = []
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      const { uuid } = (body as { batch: { uuid: string }[] }).batch[0]!
      const answer = (): void => {
        accepted.push(uuid)
        response.end()
      }
      if (uuid === 'merge') answerLast.push(answer)
      else answer()
      // Three requests with views of pages came past the merge.
      if (accepted.length === 3) for (const answer of answerLast.splice(0)) answer()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })

  const marks: number[] = []
  const sender = createSender({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, projectKey: 'phc', personsFrom: 'events', eventsPerSecond: 0,
    onAcknowledged: (mark) => marks.push(mark)
  })
  for (let i = 0; i < 4000; i++) {
    const isMerge = i < 1000
    await sender.add({ uuid: isMerge ? 'merge' : 'view', event: isMerge ? '$identify' : '$pageview', distinct_id: 'ann', timestamp: 0, properties: {}, json: '{}' }, i + 1)
  }
  await sender.finish()

  t.same(accepted, ['view', 'view', 'view', 'merge'])
  t.same(marks, [0, 0, 0, 4000])
})

t.test('a few events that must wait for each other do not hold back what counts as acknowledged', async (t) => {
  const server = createServer((request, response) => {
    void json(request).then(() => response.end())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })
  const marks: number[] = []
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const sender = createSender({ url, projectKey: 'phc', personsFrom: 'events', eventsPerSecond: 0, onAcknowledged: (mark) => marks.push(mark) })
  for (let i = 0; i < 20_000; i++) {
    const event = i % 100 === 0 ? '$identify' : '$pageview'
    await sender.add({ uuid: String(i), event, distinct_id: 'ann', timestamp: 0, properties: {}, json: '{}' }, i + 1)
  }
  const before = marks.at(-1) ?? 0
  await sender.finish()

  t.ok(before > 10_000, `${before} of 20,000 were acknowledged before the end`)
  t.equal(marks.at(-1), 20_000)
})
