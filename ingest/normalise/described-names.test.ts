import t from 'tap'
import { createRandom, pickOne, type Random } from '../../test/support/random.ts'
import { DescribedNames, type KnownNames, type NameLimits } from './described-names.ts'
import { createPropertyReader, type PropertyReader, type ReadProperties } from './read-properties.ts'

const DAY_MS = 86_400_000
const BEYOND_EVENT = 'the name of the event'
const LIMITS: NameLimits = { events: 3, properties: 5, pairs: 8 }

interface Names {
  names: DescribedNames
  /** Reads an event whose properties have these names. */
  send: (event: string, properties: string[], projectId?: number) => ReadProperties
  /** The same, as described names. */
  describe: (event: string, properties: string[], projectId?: number) => string[]
  asked: number[]
  clock: { now: number }
}

function createNames (limits = LIMITS): Names {
  const clock = { now: Date.UTC(2026, 10, 25, 22) }
  const asked: number[] = []
  const names = new DescribedNames(limits, { now: () => clock.now, askKnown: (projectId) => asked.push(projectId) })
  const read: PropertyReader = createPropertyReader(() => clock.now, names)
  const send: Names['send'] = (event, properties, projectId = 1) =>
    read(projectId, event, Object.fromEntries(properties.map((name) => [name, 'x'])))
  return { names, clock, asked, send, describe: (...sent) => namesOf(send(...sent)) }
}

function namesOf ({ types }: ReadProperties): string[] {
  return types === '' ? [] : types.split('\0').map((entry) => entry.slice(2))
}

t.test('describes new events of a project and day up to the limit, and warns beyond it', async (t) => {
  const { send, describe, clock } = createNames()
  for (const event of ['a', 'b', 'c']) t.same(describe(event, ['x']), ['x'])

  t.match(send('d', ['x']), { types: '', beyond: BEYOND_EVENT })
  t.match(send('a', ['x']), { types: 'eSx', beyond: null }, 'what was described stays so')
  t.same(describe('d', ['x'], 2), ['x'], 'another project has limits of its own')
  clock.now += DAY_MS / 12
  t.same(describe('d', ['x']), ['x'], 'another day has room')
  t.same(describe('a', ['x']), ['x'])
})

t.test('describes the properties within the limits, and leaves out the others', async (t) => {
  const { send, describe } = createNames()

  t.match(send('a', ['1', '2', '3', '4', '5', '6', '7']), { types: 'eS1\0eS2\0eS3\0eS4\0eS5', beyond: 'the property 6' })
  t.same(describe('a', ['6', '2']), ['2'])
  t.same(describe('b', ['1', '2', '3', '4']), ['1', '2', '3'], '8 pairs')
  t.same(describe('c', ['1']), [])
  t.equal(send('c', []).beyond, null, 'its name is within the limit')
})

t.test('describes what the definitions have although a flood came first', async (t) => {
  const { names, send, describe, asked, clock } = createNames()
  for (let index = 0; index < 20; index++) send(`flood ${index}`, ['1', '2', '3', '4', '5'])
  t.same(describe('paid', ['amount']), [])
  t.same(asked, [1], 'asked for once')

  names.learn(1, { events: new Map([['paid', new Set(['amount'])], ['left', new Set()]]), others: new Set(['pemail', 'gcompany\x01seats']) })

  t.same(describe('paid', ['amount', 'new']), ['amount'])
  t.same(describe('left', ['amount']), [])
  const read = createPropertyReader(() => clock.now, names)
  t.equal(read(1, 'left', { $set: { email: 'x', name: 'x' } }).types, 'pSemail')
  t.equal(read(1, 'paid', { $set: { email: 5 } }).types, 'pNemail', 'whatever its type')
  clock.now += 3_600_000
  send('more', [])
  t.same(asked, [1, 1], 'and an hour later')
})

t.test('starts over when too much is remembered', async (t) => {
  const { names, describe } = createNames({ events: Infinity, properties: Infinity, pairs: Infinity })
  const properties = Array.from({ length: 1000 }, (_, index) => `p${index}`)
  let forgot = 0
  const forget = names.forget.bind(names)
  names.forget = () => { forgot++; forget() }

  let described = 0
  for (let event = 0; event < 1010; event++) described += describe(`e${event}`, properties).length

  t.same({ described, forgot }, { described: 1_010_000, forgot: 2 }, 'a million pairs')
})

/** Any events of some projects over some days, a flood among them, against a model that counts. */
function fuzz (random: Random, events: number): { described: number, beyond: number, wrong: string[] } {
  const limits = { events: 20, properties: 30, pairs: 120 }
  const { names, send, clock } = createNames(limits)
  const known: KnownNames = { events: new Map([['known', new Set(['k1', 'k2'])]]), others: new Set() }
  names.learn(1, known)
  const before = new Map<number, Set<string>>()
  const today = new Map<string, number>()
  const result = { described: 0, beyond: 0, wrong: [] as string[] }
  for (let index = 0; index < events; index++) {
    if (random() < 0.001) clock.now += Math.floor(random() * DAY_MS)
    const projectId = pickOne([1, 1, 1, 2], random)
    const isFlood = projectId === 1 && random() < 0.7
    const event = isFlood ? `flood ${Math.floor(random() * 500)}` : pickOne(['known', 'a', 'b', '__proto__', 'constructor'], random)
    const properties = Array.from({ length: Math.floor(random() * 8) }, () =>
      isFlood ? `f${Math.floor(random() * 300)}` : pickOne(['k1', 'k2', 'toString', 'x'], random))
    const unique = [...new Set(properties)]
    const read = send(event, unique, projectId)
    const described = namesOf(read)
    const seen = before.get(projectId) ?? new Set<string>()
    before.set(projectId, seen)
    const complain = (what: string): unknown => result.wrong.push(`${index} ${what}: ${projectId} ${event} ${unique.join()} -> ${described.join()}`)
    const counter = (what: string): string => `${projectId}:${Math.floor(clock.now / DAY_MS)}:${what}`
    const add = (what: keyof NameLimits, key: string): void => {
      if (seen.has(key)) return
      seen.add(key)
      const count = (today.get(counter(what)) ?? 0) + 1
      today.set(counter(what), count)
      if (count > limits[what]) complain(`more than ${limits[what]} ${what}`)
    }
    const isKnown = (name: string): boolean => projectId === 1 && known.events.get(event)?.has(name) === true
    if (described.some((name, at) => unique.indexOf(name) < unique.indexOf(described[at - 1] ?? ''))) complain('another order')
    if (described.some((name) => !unique.includes(name))) complain('a stranger')
    for (const name of unique) {
      const isDescribed = described.includes(name)
      if (!isDescribed && (isKnown(name) || seen.has(`pair ${event} ${name}`))) complain(`${name} is not described`)
      if (!isDescribed || isKnown(name)) continue
      add('pairs', `pair ${event} ${name}`)
      add('properties', `property ${name}`)
    }
    if (read.beyond !== BEYOND_EVENT && !(projectId === 1 && known.events.has(event))) add('events', `event ${event}`)
    if (projectId === 2 && described.length < unique.length) complain('the flood of another project')
    if ((read.beyond === null) === (described.length < unique.length)) {
      if (!(described.length === 0 && unique.length === 0)) complain('beyond')
    }
    if (read.beyond === null) result.described++
    else result.beyond++
  }
  return result
}

for (const seed of process.env.MILLRACE_TEST_LONG === '1' ? [1, 2, 3] : [1]) {
  t.test(`of any names no more than the limits are described, and none of the known ones is crowded out; seed ${seed}`, async (t) => {
    const { described, beyond, wrong } = fuzz(createRandom(seed), 50_000)

    t.comment(`${described} events described, ${beyond} beyond the limits`)
    t.same(wrong.slice(0, 5), [])
    t.ok(described > 10_000 && beyond > 10_000)
  })
}
