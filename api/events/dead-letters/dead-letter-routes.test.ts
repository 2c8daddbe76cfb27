import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { publishDeadLetter } from '../../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../../platform/logger.ts'
import { EVENTS_STREAM } from '../../../schema/wire/streams.ts'
import { createTestApi, type TestApi } from '../../testing/create-test-api.ts'
import { plantDeadLetters } from '../../testing/plant-dead-letters.ts'
import { createNatsOnDemand } from './nats-on-demand.ts'

async function createApiWith (t: Tap, url: string): Promise<TestApi> {
  return await createTestApi(t, { nats: createNatsOnDemand({ url, logger: createLogger({ component: 'test', level: 'silent' }) }) })
}

type Tap = Parameters<typeof createTestApi>[0]

t.test('lists the dead letters of the project, filtered and in pages', async (t) => {
  const { url } = await plantDeadLetters(t, [
    { project: 1, event: 'paid', uuid: 'a', errorCode: 469 }, { project: 2 }, {}, { project: 1, reason: 'too_large' },
    { project: 1, stage: 'persons', event: 'été' }
  ])
  const api = await createApiWith(t, url)
  const ids = async (query: string): Promise<number[]> =>
    (await api.call('GET', `~/dead_letters/?${query}`)).body.results.map(({ id }: { id: number }) => id)

  const page = await api.call('GET', '~/dead_letters?limit=2')

  t.match(page, {
    status: 200,
    body: {
      count: 3, next: /limit=2&offset=2/, previous: null,
      results: [{ id: 1, stage: 'writer', reason: 'refused', error: 'no room', error_code: '469', event: 'paid', uuid: 'a', rows: null }, { id: 4 }]
    }
  })
  t.same(await ids('limit=2&offset=2'), [5])
  t.same(await ids('stage=persons'), [5])
  t.same(await ids('reason=too_large'), [4])
  t.same(await ids('event=%C3%A9t%C3%A9'), [5])
  t.same(await ids('to=2020-01-01'), [])
  t.same(await ids('from=2020-01-01'), [1, 4, 5])
  t.match(await api.call('GET', '~/dead_letters?reason=a.>'), { status: 400, body: { attr: 'reason' } })
  t.match(await api.call('GET', '~/dead_letters?from=soon'), { status: 400, body: { attr: 'from' } })
})

t.test('who follows next misses no dead letter while others are purged', async (t) => {
  const { url } = await plantDeadLetters(t, [
    { project: 1 }, { project: 1 }, { project: 2 }, { project: 1 }, { project: 1, stage: 'persons' }, { project: 1 }
  ])
  const api = await createApiWith(t, url)
  const follow = async (next: string): Promise<any> => (await api.call('GET', next.replace(/^https?:\/\/[^/]+/, ''))).body

  const { body: first } = await api.call('GET', '~/dead_letters/?limit=2')
  t.match(first, { count: 5, results: [{ id: 1 }, { id: 2 }] })
  await api.call('DELETE', '~/dead_letters/1')
  const second = await follow(first.next)
  t.match(second, { count: 4, results: [{ id: 4 }, { id: 5 }] })
  await api.call('DELETE', '~/dead_letters/5')
  t.match(await follow(second.next), { count: 3, results: [{ id: 6 }], next: null })
  const { body: filtered } = await api.call('GET', '~/dead_letters/?limit=1&stage=writer&from=2020-01-01')
  t.match(await follow(filtered.next), { results: [{ id: 4 }] }, 'with the filters')
  t.match(await api.call('GET', '~/dead_letters/?after=W10'), { status: 400, body: { attr: 'after' } })
})

t.test('groups the dead letters of the project, and replays one group', async (t) => {
  const { url } = await plantDeadLetters(t, [
    { project: 1, event: 'paid', errorCode: 469, error: 'first' }, { project: 2, event: 'paid', errorCode: 469 },
    { project: 1, event: 'paid', errorCode: 469, error: 'second' }, { project: 1, event: 'paid' }, { project: 1 }
  ])
  const api = await createApiWith(t, url)

  const { status, body } = await api.call('GET', '~/dead_letters/groups')

  t.equal(status, 200)
  t.match(body, { count: 4, ungrouped: 0 })
  t.match(body.results[0], {
    stage: 'writer', reason: 'refused', error_code: '469', event: 'paid', count: 2, error: 'second'
  })
  t.same(body.results[0].by_hour, [...Array<number>(23).fill(0), 2])
  t.same(body.results.map(({ event, error_code: code, count }: any) => [event, code, count]),
    [['paid', '469', 2], ['paid', null, 1], [null, null, 1]])
  const group = { stage: 'writer', reason: 'refused', error_code: '', event: 'paid' }
  t.match(await api.call('POST', '~/dead_letters/replay', { ...group, dry_run: true }), { body: { matched: 1 } })
  t.match(await api.call('POST', '~/dead_letters/replay', { event: '' }), { body: { matched: 1, replayed: 1 } })
  t.match((await api.call('GET', '~/dead_letters/groups?error_code=')).body, { count: 1 })
})

t.test('groups that were counted are remembered until a letter comes or goes', async (t) => {
  const { url, connection } = await plantDeadLetters(t, [{ project: 1, event: 'paid' }, { project: 1, event: 'sent' }])
  const api = await createApiWith(t, url)
  const count = async (): Promise<number> => (await api.call('GET', '~/dead_letters/groups')).body.count
  /** Reads of the stream so far: each makes a consumer. */
  let reads = 0
  connection.subscribe('$JS.EVENT.ADVISORY.CONSUMER.CREATED.DEAD_LETTER.>', { callback: () => { reads++ } })
  await connection.flush()

  t.equal(await count(), 2)
  t.equal(await count(), 2)
  await connection.flush()
  t.equal(reads, 1)
  await api.call('DELETE', '~/dead_letters/1')
  t.equal(await count(), 1)
  await publishDeadLetter(connection, {
    stage: 'writer', reason: 'refused', error: 'no room', subject: 'events.live.0', sequence: 9, project: 1, event: 'new',
    headers: {}, body: Buffer.from('{}'), id: 'another'
  })
  t.equal(await count(), 2)
})

t.test('of more groups than are answered it is the largest, whenever they came', async (t) => {
  const { url } = await plantDeadLetters(t, [
    ...Array.from({ length: 501 }, (_, index) => ({ project: 1, event: `rare ${index}` })), { project: 1, event: 'frequent' }, { project: 1, event: 'frequent' }
  ])
  const api = await createApiWith(t, url)

  const { body } = await api.call('GET', '~/dead_letters/groups')

  t.match(body, { count: 503, ungrouped: 2, results: [{ event: 'frequent', count: 2 }] })
  t.equal(body.results.length, 500)
})

t.test('shows a dead letter of the project, and reveals nothing about others', async (t) => {
  const { url } = await plantDeadLetters(t, [{ project: 1 }, { project: 2 }, {}])
  const api = await createApiWith(t, url)

  t.match(await api.call('GET', '~/dead_letters/1'), {
    status: 200, body: { id: 1, content: { some: 'body' }, body_base64: 'eyJzb21lIjogImJvZHkifQ==', headers: { 'Millrace-Layout': '1' } }
  })
  for (const id of [2, 3, 99]) {
    t.match(await api.call('GET', `~/dead_letters/${id}`), { status: 404, body: { code: 'not_found' } })
    t.match(await api.call('POST', `~/dead_letters/${id}/replay`), { status: 404 })
  }
})

t.test('replays dead letters to their stream, once', async (t) => {
  const { url, connection } = await plantDeadLetters(t, [{ project: 1 }, { project: 2 }, { project: 1 }, { project: 1, reason: 'later' }])
  const api = await createApiWith(t, url)
  const waiting = async (): Promise<number> =>
    (await (await jetstreamManager(connection)).streams.info(EVENTS_STREAM)).state.messages

  t.match(await api.call('POST', '~/dead_letters/replay', { dry_run: true }), { status: 200, body: { matched: 3, replayed: 0 } })
  t.equal(await waiting(), 0)
  t.match(await api.call('POST', '~/dead_letters/1/replay'), { status: 200, body: { matched: 1, replayed: 1, skipped: 0 } })
  t.match(await api.call('POST', '~/dead_letters/1/replay'), { status: 404 })
  t.match(await api.call('POST', '~/dead_letters/replay', { reason: 'refused' }), { body: { matched: 1, replayed: 1 } })
  t.match(await api.call('POST', '~/dead_letters/replay'), { body: { matched: 1, replayed: 1 } })

  t.equal(await waiting(), 3)
  t.match(await api.call('POST', '~/dead_letters/replay', { colour: 'red' }), { status: 400, body: { attr: 'colour' } })
})

t.test('purges dead letters of the project, no more than were counted', async (t) => {
  const { url } = await plantDeadLetters(t, [
    { project: 1 }, { project: 2 }, { project: 1 }, { project: 1, reason: 'later' }, { project: 1, reason: 'later' }
  ])
  const api = await createApiWith(t, url)
  const left = async (): Promise<number[]> =>
    (await api.call('GET', '~/dead_letters/')).body.results.map(({ id }: { id: number }) => id)

  t.match(await api.call('POST', '~/dead_letters/purge', {}), { status: 400, body: { attr: 'limit' } })
  t.match(await api.call('POST', '~/dead_letters/purge', { limit: 0 }), { status: 400, body: { attr: 'limit' } })
  t.match(await api.call('POST', '~/dead_letters/purge', { dry_run: true }), { status: 200, body: { matched: 4, purged: 0 } })
  t.same(await left(), [1, 3, 4, 5])
  t.match(await api.call('POST', '~/dead_letters/purge', { reason: 'later', limit: 1 }), { status: 200, body: { matched: 1, purged: 1 } })
  t.same(await left(), [1, 3, 5])
  t.equal((await api.call('DELETE', '~/dead_letters/3')).status, 204)
  t.equal((await api.call('DELETE', '~/dead_letters/3')).status, 404)
  t.equal((await api.call('DELETE', '~/dead_letters/2')).status, 404, 'of another project')
  t.same(await left(), [1, 5])
})

t.test('answers 503 while NATS is unavailable, and serves the rest', async (t) => {
  const api = await createTestApi(t)

  t.match(await api.call('GET', '~/dead_letters'), { status: 503, body: { type: 'server_error', code: 'stream_unavailable' } })
  t.equal((await api.call('GET', '~/experiments')).status, 200)
})
