import t from 'tap'
import { decodeFates, encodeFates, type Fate } from '../../../schema/wire/live-feed.ts'
import { FateJoin, keysOf, type ToldFate } from './fate-join.ts'

const print = (name: string): string => Buffer.from(name.padEnd(12)).toString('hex')

/** Tells fates as they come through NATS. */
function tell (join: FateJoin, fate: Fate, names: string[], now = 0): ToldFate[] {
  const fates = decodeFates(encodeFates({ fate, at: 7, fingerprints: Buffer.from(names.map(print).join(''), 'hex') }))!
  return join.tell(fates, keysOf(fates), now)
}

t.test('a fate finds its event, whichever of them comes first', (t) => {
  const join = new FateJoin()

  t.equal(join.expect(0, print('a')), null)
  t.same(tell(join, 'stored', ['x', 'a', 'b']), [{ number: 0, fate: 'stored', at: 7 }])
  t.same(join.expect(1, print('b')), { number: 1, fate: 'stored', at: 7 }, 'it was told before')
  t.equal(join.expect(2, print('b')), null, 'once')
  t.end()
})

t.test('sendings of one event get their fates in order', (t) => {
  const join = new FateJoin()
  join.expect(0, print('a'))
  t.match(tell(join, 'stored', ['a']), [{ number: 0, fate: 'stored' }])

  t.same(tell(join, 'duplicate', ['a']), [], 'the second may be about to arrive')
  t.match(join.expect(1, print('a')), { number: 1, fate: 'duplicate' })
  t.end()
})

t.test('a fate that no further event takes is the later word about the last', (t) => {
  const join = new FateJoin()
  join.expect(0, print('a'))
  tell(join, 'stored', ['a'], 10_000)
  tell(join, 'duplicate', ['a', 'unknown'], 10_000)

  t.same([...join.turn(12_000), ...join.turn(14_000)], [{ number: 0, fate: 'duplicate', at: 7 }])
  t.same([...join.turn(16_000), ...join.turn(18_000)], [], 'said once')
  t.end()
})

t.test('forgets the oldest of very many', (t) => {
  const join = new FateJoin()
  for (let number = 0; number <= 20_000; number++) join.expect(number, print(`n${number}`))

  t.same(tell(join, 'stored', ['n0', 'n1']).map(({ number }) => number), [1])
  t.end()
})

t.test('a message that is none is told from one', (t) => {
  for (const bytes of [[], [9, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 5]]) {
    t.equal(decodeFates(Uint8Array.from(bytes)), null)
  }
  t.end()
})
