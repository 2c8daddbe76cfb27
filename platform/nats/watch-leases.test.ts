import t from 'tap'
import type { Watch } from '../../schema/wire/live-feed.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { WatchLeases } from './watch-leases.ts'

const watch: Watch = { id: 'a', project: 1, event: '', distinctId: '' }

function notice (fields: object): Uint8Array {
  return Buffer.from(JSON.stringify({ ...watch, leaseMs: 10_000, ...fields }))
}

t.test('a watch begins with a notice, and ends by one', (t) => {
  const seen: string[][] = []
  const leases = new WatchLeases((watches) => seen.push(watches.map(({ id }) => id)))

  t.notOk(leases.isAnyone)
  for (const fields of [{}, {}, { id: 'b' }, { leaseMs: 0 }, { leaseMs: 0 }, { id: 'b', leaseMs: 0 }]) leases.hear(notice(fields))

  t.same(seen, [['a'], ['a', 'b'], ['b'], []], 'a renewal changes nothing')
  t.notOk(leases.isAnyone)
  t.end()
})

t.test('a watch that is not renewed ends', async (t) => {
  const leases = new WatchLeases()

  leases.hear(notice({ leaseMs: 1 }))

  t.ok(leases.isAnyone)
  // The timer of a lease does not keep the process.
  await waitFor(() => !leases.isAnyone)
})

t.test('what is no notice is ignored, and watches are bounded', (t) => {
  const seen: number[] = []
  const leases = new WatchLeases((watches) => seen.push(watches.length))

  for (const text of ['', '{', 'null', '[]', JSON.stringify({ ...watch, id: 'a.>', leaseMs: 1 }), JSON.stringify({ ...watch, project: '1', leaseMs: 1 })]) {
    leases.hear(Buffer.from(text))
  }
  t.same(seen, [])
  for (let id = 0; id < 100; id++) leases.hear(notice({ id: String(id) }))
  t.equal(seen.at(-1), 64)
  leases.clear()
  t.notOk(leases.isAnyone)
  t.end()
})
