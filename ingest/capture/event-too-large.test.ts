import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { startTestNats } from '../../test/support/test-processes.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

const nats = await startTestNats(t, { extraConfig: 'max_payload: 1MB' })
const ingest = await startTestIngest(t, { NATS_URL: nats.url })

t.test('an event larger than a message, alone, is refused with 413 in every form, unless the client is told of each event', async (t) => {
  const event = {
    event: 'e', userId: 'u', uuid: randomUUID(), distinct_id: 'u', timestamp: new Date().toISOString(), properties: { text: 'x'.repeat(600_000) }
  }
  const bodies: [string, object, number][] = [
    ['/capture/', { ...event, api_key: PROJECT_KEY }, 413],
    ['/batch/', { api_key: PROJECT_KEY, batch: [event, event] }, 413],
    ['/batch/', { api_key: PROJECT_KEY, batch: [event, { event: 'small', distinct_id: 'u' }] }, 200],
    ['/v1/track', { ...event, writeKey: PROJECT_KEY }, 413],
    ['/i/v1/analytics/events', { batch: [event] }, 200]
  ]

  for (const [path, body, status] of bodies) {
    for (const send of [JSON.stringify(body), gzipSync(JSON.stringify(body))]) {
      const answer = await ingest.post(path, send, { headers: { authorization: `Bearer ${PROJECT_KEY}` } })
      t.equal(answer.status, status, path)
      if (status === 413) t.match(await answer.json(), { type: 'validation_error', code: 'event_too_large' })
      else if (path.startsWith('/i/v1')) t.match(await answer.json(), { results: { [event.uuid]: { result: 'drop' } } })
    }
  }
})
