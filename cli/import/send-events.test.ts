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
    await sender.add({ uuid: `of ${Math.floor(i / 1000)}`, event: '$set', distinct_id: 'ann', timestamp: 0, properties: {} }, i + 1)
  }
  await sender.finish()

  t.same(accepted, ['of 0', 'of 1', 'of 2'])
  t.same(marks, [1000, 2000, 3000])
})
