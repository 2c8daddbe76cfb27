import t from 'tap'
import type { ArrivedEvent, Watch } from '../../schema/wire/live-feed.ts'
import { type Arrivals, ArrivalCollector } from './arrivals.ts'
import { type EventSink, takeBody } from './take-parsed-body.ts'
import { createTakeEvent } from './take-event.ts'
import { createPlainNormaliser } from '../../test/support/plain-normaliser.ts'

const takeEvent = createTakeEvent({
  normaliseEvent: createPlainNormaliser(), isAnnounced: () => true, maxPayloadBytes: () => 1e6,
  onUnexpected: (error) => { throw error }
})

const everything: Watch = { id: 'w', project: 1, event: '', distinctId: '' }

/** Takes a body as ingest does, and answers what watches saw. */
async function watch (
  watches: Watch[], events: unknown[], { anonymizeIps = false } = {}
): Promise<Arrivals> {
  const arrivals = new ArrivalCollector()
  arrivals.setWatches(watches)
  await take(arrivals, events, { anonymizeIps })
  return arrivals.take()
}

async function take (
  arrivals: ArrivalCollector, events: unknown[], { anonymizeIps = false } = {}
): Promise<void> {
  const sink: EventSink = { add: () => {} }
  await takeBody({ fields: { api_key: 'phc_secret_key' }, pieces: [events] }, { requestId: 'r', query: {}, isEngage: false, receivedAt: 5000 }, {
    admit: () => ({ project: { id: 1, anonymizeIps }, ip: '', visitor: { address: '', userAgent: '' } }), takeEvent, sink, arrivals
  })
}

const sent = { event: 'paid', distinct_id: 'ann', uuid: '0193a5b2-7c1d-4e8f-9abc-000000000001', properties: { $lib: 'web', amount: 5 } }

t.test('tells of an event who sent it, by what, and its JSON as sent', async (t) => {
  const [seen] = await watch([everything], [sent])

  t.match(seen, {
    watchId: 'w', matched: 1, events: [{
      at: 5000, event: 'paid', distinctId: 'ann', uuid: sent.uuid, lib: 'web', key: 'phc_secr…', drop: null, sent: JSON.stringify(sent), sentCharacters: 0
    }]
  })
  t.notMatch(JSON.stringify(seen), 'phc_secret_key', 'the key cannot be used')
})

t.test('tells why an event was dropped, whatever it is', async (t) => {
  const [seen] = await watch([everything], [{ distinct_id: 'ann' }, 5, { event: 'e', distinct_id: {}, properties: 'none' }])

  t.match(seen!.events, [
    { drop: 'missing_event_name', event: '', distinctId: 'ann' },
    { drop: 'not_an_object', sent: '5' },
    { drop: 'invalid_properties', event: 'e' }
  ])
})

t.test('each watch sees what it asked for', async (t) => {
  const watches = [
    everything, { ...everything, id: 'paid', event: 'paid' }, { ...everything, id: 'bob', distinctId: 'bob' }, { ...everything, id: 'other', project: 2 }
  ]

  const seen = await watch(watches, [sent, { ...sent, distinct_id: 'bob', event: 'left' }, { distinct_id: 'bob' }])

  t.same(seen.map(({ watchId, matched }) => [watchId, matched]), [['w', 3], ['paid', 1], ['bob', 2], ['other', 0]])
})

/** Bodies of so many events, taken between two reports. */
async function takeMany (arrivals: ArrivalCollector, bodies: number, { eventsPerBody = 100 } = {}): Promise<Arrivals> {
  for (let body = 0; body < bodies; body++) {
    const places = Array.from({ length: eventsPerBody }, (_, index) => body * eventsPerBody + index)
    await take(arrivals, places.map((place) => ({ ...sent, uuid: undefined, properties: { place } })))
  }
  return arrivals.take()
}

function placesOf (seen: Arrivals[number]): number[] {
  return seen.events.map(({ sent }) => (JSON.parse(sent) as { properties: { place: number } }).properties.place)
}

t.test('shows all of some events, and of very many a sample from the whole time, with exact counts', async (t) => {
  const arrivals = new ArrivalCollector()
  arrivals.setWatches([everything])

  const [few] = await takeMany(arrivals, 1)
  const [burst] = await takeMany(arrivals, 20)
  const [many] = await takeMany(arrivals, 20)
  const [none] = await takeMany(arrivals, 0)
  const [one] = await takeMany(arrivals, 1, { eventsPerBody: 1 })

  t.match(few, { matched: 100, events: { length: 100 } })
  t.match(burst, { matched: 2000, events: { length: 200 } }, 'what nobody expected is bounded')
  t.match(many, { matched: 2000, events: { length: 25 } })
  t.same(placesOf(many!), Array.from({ length: 25 }, (_, index) => index * 80), 'it is drawn from all of them')
  t.match([none, one], [{ matched: 0, events: { length: 0 } }, { matched: 1, events: { length: 1 } }], 'a lone event after them is shown')
})

t.test('a watch of one name sees its events beside one of everything that has too much to show', async (t) => {
  const arrivals = new ArrivalCollector()
  arrivals.setWatches([everything, { ...everything, id: 'rare', event: 'rare' }])
  await takeMany(arrivals, 20)

  await take(arrivals, Array.from({ length: 2000 }, (_, index) => ({ ...sent, uuid: undefined, event: index % 400 === 399 ? 'rare' : 'paid' })))

  t.match(arrivals.take(), [{ matched: 2000, events: { length: 12 } }, { matched: 5, events: { length: 5 } }])
})

t.test('adds what a thread collected', (t) => {
  const arrivals = new ArrivalCollector()
  arrivals.setWatches([everything])
  const events = Array.from({ length: 200 }, () => ({}) as ArrivedEvent)

  arrivals.add([{ watchId: 'w', matched: 7, events: [] }, { watchId: 'gone', matched: 1, events: [] }])
  arrivals.add([{ watchId: 'w', matched: 900, events }])

  t.match(arrivals.take(), [{ watchId: 'w', matched: 907, events: { length: 200 } }])
  t.end()
})

t.test('says how large an event is that is too large to be shown', async (t) => {
  const [large, huge] = [20_000, 100_000].map((length) => ({ ...sent, properties: { text: 'x'.repeat(length) } }))

  const [seen] = await watch([everything], [large, huge])

  t.same(seen!.events.map(({ sent, sentCharacters }) => [sent.length, sentCharacters > 0]), [[16_384, true], [0, true]])
  t.equal(seen!.events[0]!.sentCharacters, JSON.stringify(large).length)
})

t.test('shows no address that the project or the page does not keep', async (t) => {
  const withAddress = { ...sent, properties: { $ip: '10.1.2.3', $raw_user_agent: 'Firefox', plan: 'pro' }, context: { ip: '10.1.2.3' } }

  t.match(await watch([everything], [withAddress]), [{ events: [{ sent: /10\.1\.2\.3/ }] }])
  for (const seen of [
    await watch([everything], [withAddress], { anonymizeIps: true }),
    await watch([everything], [{ ...withAddress, properties: { ...withAddress.properties, $cookieless_mode: true } }])
  ]) {
    t.notMatch(JSON.stringify(seen), /10\.1\.2\.3|Firefox/)
    t.match(seen, [{ events: [{ sent: /"plan":"pro"/ }] }])
  }
})
