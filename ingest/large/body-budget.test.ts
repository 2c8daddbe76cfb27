import t from 'tap'
import { BodyBudget } from './body-budget.ts'

const OVERLOADED = { status: 503, code: 'overloaded', type: 'server_error' }

t.test('gives room in the order of asking, and gives it back once', async (t) => {
  const budget = new BodyBudget({ maxBytes: 100, maxWaiting: 10, maxWaitMs: 60_000 })
  const order: string[] = []
  const first = await budget.acquire(80)
  const large = budget.acquire(60).then((lease) => { order.push('large'); return lease })
  // It would fit, but others were first.
  const small = budget.acquire(10).then((lease) => { order.push('small'); return lease })

  first.release()
  first.release()
  const leases = await Promise.all([large, small])

  t.same(order, ['large', 'small'])
  t.equal(budget.used, 70)
  for (const lease of leases) lease.release()
  t.equal(budget.used, 0)
})

t.test('lets a body that is larger than the whole budget through alone', async (t) => {
  const budget = new BodyBudget({ maxBytes: 100, maxWaiting: 10, maxWaitMs: 60_000 })

  const lease = await budget.acquire(1000)

  t.equal(budget.used, 100)
  lease.release()
  t.equal(budget.used, 0)
})

t.test('refuses who comes when too many wait', async (t) => {
  const budget = new BodyBudget({ maxBytes: 100, maxWaiting: 1, maxWaitMs: 60_000 })
  const lease = await budget.acquire(100)
  const waiting = budget.acquire(100)

  await t.rejects(budget.acquire(1), OVERLOADED)

  lease.release()
  ;(await waiting).release()
})

t.test('the body of another sender waits for one, not for all that came before it', async (t) => {
  const budget = new BodyBudget({ maxBytes: 100, maxWaiting: 10, maxWaitMs: 60_000 })
  const order: string[] = []
  const take = async (sender: string): Promise<void> => {
    const lease = await budget.acquire(50, sender)
    order.push(sender)
    setImmediate(() => lease.release())
  }

  await Promise.all(['a', 'a', 'a', 'a', 'a', 'b', 'a', 'b'].map(take))

  // Two had room at once, and one of the first that waited had its turn.
  t.same(order, ['a', 'a', 'a', 'b', 'a', 'b', 'a', 'a'])
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(budget.used, 0)
})

t.test('a sender with bodies in memory leaves the reserved room to one that has none', async (t) => {
  const budget = new BodyBudget({ maxBytes: 100, reservedBytes: 40, maxWaiting: 10, maxWaitMs: 60_000 })
  const first = await budget.acquire(50, 'a')
  const order: string[] = []
  const take = async (sender: string, bytes: number): Promise<void> => {
    const lease = await budget.acquire(bytes, sender)
    order.push(`${sender} ${bytes}`)
    setImmediate(() => lease.release())
  }
  const own = [take('a', 40), take('a', 10)]

  await take('b', 40)
  t.same(order, ['b 40'])
  first.release()
  await Promise.all(own)
  t.same(order, ['b 40', 'a 40', 'a 10'])
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(budget.used, 0)
})

t.test('a sender that fills the queue is refused, not who comes after it', async (t) => {
  const budget = new BodyBudget({ maxBytes: 100, maxWaiting: 3, maxWaitMs: 60_000 })
  const lease = await budget.acquire(100, 'a')
  const take = async (sender: string): Promise<void> => (await budget.acquire(100, sender)).release()
  const first = [take('a'), take('a')]
  const last = take('a')
  const other = take('b')

  await t.rejects(last, OVERLOADED)
  await t.rejects(budget.acquire(100, 'a'), OVERLOADED)

  lease.release()
  await Promise.all([...first, other])
})

t.test('refuses who waited too long, and lets the next one have the room', async (t) => {
  const budget = new BodyBudget({ maxBytes: 100, maxWaiting: 10, maxWaitMs: 20 })
  const lease = await budget.acquire(50)

  await t.rejects(budget.acquire(60), OVERLOADED)
  const next = await budget.acquire(50)

  t.equal(budget.used, 100)
  for (const held of [lease, next]) held.release()
})

t.test('who leaves while it waits leaves nothing behind, also in the moment of the grant', async (t) => {
  const budget = new BodyBudget({ maxBytes: 100, reservedBytes: 40, maxWaiting: 10, maxWaitMs: 60_000 })
  const [early, late] = [new AbortController(), new AbortController()]
  const lease = await budget.acquire(100, 'a')
  const leaving = t.rejects(budget.acquire(100, 'b', { gone: early.signal }), OVERLOADED)
  const granted = budget.acquire(100, 'b', { gone: late.signal })
  const next = budget.acquire(100, 'b')

  early.abort()
  await leaving
  lease.release()
  late.abort()
  await granted
  ;(await next).release()

  t.equal(budget.used, 0)
})

t.test('a lease that turns out smaller gives back, one that turns out larger makes the next ones wait', async (t) => {
  const budget = new BodyBudget({ maxBytes: 100, maxWaiting: 10, maxWaitMs: 60_000 })
  const first = await budget.acquire(100)
  const second = budget.acquire(60)

  first.resize(30)
  const lease = await second
  t.equal(budget.used, 90)
  first.resize(500)
  t.equal(budget.used, 560)
  let third: Awaited<typeof second> | null = null
  const waiting = budget.acquire(10).then((granted) => { third = granted })
  lease.release()
  lease.resize(1000)
  t.equal(budget.used, 500)
  t.equal(third, null)
  first.release()
  await waiting

  t.equal(budget.used, 10)
})

t.test('reserved room goes to another holder, however many senders the first one has', async (t) => {
  const budget = new BodyBudget({ maxBytes: 100, reservedBytes: 40, maxWaiting: 10, maxWaitMs: 60_000 })
  const first = await budget.acquire(50, 'a', { holder: 'unknown' })
  first.assign('project 1')
  const order: string[] = []
  const take = async (sender: string, holder: string): Promise<void> => {
    const lease = await budget.acquire(40, sender, { holder })
    order.push(`${sender} ${holder}`)
    setImmediate(() => lease.release())
  }
  const own = [take('b', 'project 1'), take('c', 'project 1')]

  await take('a', 'project 2')
  t.same(order, ['a project 2'])
  first.release()
  first.assign('project 1')
  await Promise.all(own)
  t.same(order, ['a project 2', 'b project 1', 'c project 1'])
})

t.test('holders take turns, and so do the senders of each, however many one of them has', async (t) => {
  const budget = new BodyBudget({ maxBytes: 100, maxWaiting: 20, maxWaitMs: 60_000 })
  const order: string[] = []
  const take = async (sender: string, holder: string): Promise<void> => {
    const lease = await budget.acquire(100, sender, { holder })
    order.push(sender)
    setImmediate(() => lease.release())
  }

  await Promise.all([take('a x', 'a'), take('a x', 'a'), take('a x', 'a'), take('a y', 'a'), take('b z', 'b')])

  // Nobody waited when the first came, so its turn is not remembered.
  t.same(order, ['a x', 'a x', 'b z', 'a y', 'a x'])
})
