import t from 'tap'
import { createExpiringCache } from './expiring-cache.ts'

function createCounted (load: (key: string, loads: number) => Promise<string | undefined>) {
  const state = { loads: 0, now: 0 }
  const cache = createExpiringCache<string>({
    load: async (key) => await load(key, ++state.loads), ttlMs: 1000, maxEntries: 2, now: () => state.now
  })
  return { cache, state }
}

t.test('loads a value once while it is young, and once for all who ask at the same time', async (t) => {
  const { cache, state } = createCounted(async (key, loads) => `${key} ${loads}`)

  t.same(await Promise.all([cache.get('a'), cache.get('a')]), ['a 1', 'a 1'])
  state.now = 999
  t.equal(await cache.get('a'), 'a 1')
  state.now = 1000
  t.equal(await cache.get('a'), 'a 2')
})

t.test('remembers that there is no value', async (t) => {
  const { cache, state } = createCounted(async () => undefined)

  await cache.get('a')
  t.equal(await cache.get('a'), undefined)
  t.equal(state.loads, 1)
})

t.test('does not keep what was loaded before an invalidation and arrived after it', async (t) => {
  const arrival = Promise.withResolvers<string>()
  const { cache } = createCounted(async (_, loads) => loads === 1 ? await arrival.promise : 'new')

  const early = cache.get('a')
  cache.invalidate()
  t.equal(await cache.get('a'), 'new')
  arrival.resolve('old')
  t.equal(await early, 'old')

  cache.invalidate()
  t.equal(await cache.get('a'), 'new')
})

t.test('serves the old value while loading fails, and fails without one', async (t) => {
  const { cache, state } = createCounted(async (key, loads) => {
    if (loads > 1) throw new Error('away')
    return key
  })

  await cache.get('a')
  state.now = 5000
  t.equal(await cache.get('a'), 'a')
  await t.rejects(cache.get('b'), /away/)
})

t.test('forgets the oldest beyond its size', async (t) => {
  const { cache, state } = createCounted(async (key) => key)

  for (const key of ['a', 'b', 'c', 'b', 'c']) await cache.get(key)
  t.equal(state.loads, 3)
  await cache.get('a')
  t.equal(state.loads, 4)
})
