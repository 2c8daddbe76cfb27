import t from 'tap'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { changeProperties } from './change-properties.ts'
import type { Properties, PropertyOwner } from './persons-state.ts'
import { MAX_PROPERTIES_BYTES, measureOwner, measureProperties } from './properties-size.ts'

function ownerOf (properties: Properties): PropertyOwner {
  return { properties, sizeBound: measureProperties(properties), isMeasured: false, changed: false }
}

t.test('sets absent properties once, then sets, then unsets', async (t) => {
  const owner = ownerOf({ a: 1, b: 1, c: 1 })

  t.equal(changeProperties(owner, { set: { b: 2, c: 2 }, setOnce: { a: 3, d: 3 }, unset: ['c', 'absent'] }), 'done')

  t.strictSame(owner.properties, { a: 1, b: 2, d: 3 })
  t.ok(owner.changed)
})

t.test('a first value of nothing does not stand in the way of the real one, and never replaces it', async (t) => {
  const owner = ownerOf({ $initial_gclid: null, $initial_utm_term: '', note: null })
  const once = (value: unknown): string => changeProperties(owner, {
    setOnce: { $initial_gclid: value, $initial_utm_term: value, $initial_referrer: value, note: value }
  })

  for (const value of [null, '', 'ad', null, '', 'later']) t.equal(once(value), 'done')

  t.strictSame(owner.properties, { $initial_gclid: 'ad', $initial_utm_term: 'ad', note: null, $initial_referrer: 'ad' })
  changeProperties(owner, { set: { $initial_gclid: '' }, setOnce: { $initial_flag: false, $initial_count: 0 } })
  t.match(owner.properties, { $initial_gclid: '', $initial_flag: false, $initial_count: 0 }, 'set values win, and 0 and false are values')
})

t.test('recognises that nothing changes, whatever the order of keys', async (t) => {
  const owner = ownerOf({ a: null, n: { x: 1, y: [1, { z: 2 }] } })

  changeProperties(owner, { set: { a: null, n: { y: [1, { z: 2 }], x: 1 } }, setOnce: { a: 1 }, unset: ['toString'] })

  t.notOk(owner.changed)
})

t.test('treats names of built-in members like any other name', async (t) => {
  const owner = ownerOf({})

  changeProperties(owner, { set: JSON.parse('{"__proto__":{"x":1},"constructor":2}') as Properties, setOnce: { toString: 3 } })

  t.equal(JSON.stringify(owner.properties), '{"toString":3,"__proto__":{"x":1},"constructor":2}')
  t.equal(({} as Properties).x, undefined)
})

t.test('refuses a whole change that would be too large, and accepts more after unsetting', async (t) => {
  const owner = ownerOf({ keep: 1 })
  const most = 'é'.repeat(MAX_PROPERTIES_BYTES / 2 - 20)

  t.equal(changeProperties(owner, { set: { most } }), 'done')
  t.equal(changeProperties(owner, { set: { much: 'x'.repeat(100) }, unset: ['keep'] }), 'too_large')
  t.same(Object.keys(owner.properties), ['keep', 'most'])
  t.equal(changeProperties(owner, { set: { much: 'x'.repeat(100) }, unset: ['most'] }), 'done')
  t.same(Object.keys(owner.properties), ['keep', 'much'])
})

t.test('never underestimates the size of properties', async (t) => {
  const owner = ownerOf({})
  const values = ['"\\\u0001\n', '😀\ud800', -1.5e-300, true, null, { 'k"': ['é'] }, [], 1e21]

  for (const [i, value] of values.entries()) {
    changeProperties(owner, { set: { [`"${i}\u0002é`]: value } })
    t.ok(owner.sizeBound >= measureProperties(owner.properties))
  }
})

t.test('counts the digits that Postgres writes of a number with an exponent, and none of a text', async (t) => {
  const plain = measureProperties({ a: 'x1e300', b: [5] })
  t.equal(plain, '{"a":"x1e300","b":[5]}'.length)
  t.equal(measureProperties({ a: '\\"1e300', b: [5e300, { c: -1.5e-7 }] }), '{"a":"\\\\\\"1e300","b":[5e+300,{"c":-1.5e-7}]}'.length + 307)

  const owner = ownerOf({})
  t.equal(changeProperties(owner, { set: { a: Array(1800).fill(1e300) } }), 'too_large')
  t.equal(changeProperties(owner, { set: { a: Array(1600).fill(1e300) } }), 'done')
  t.equal(changeProperties(owner, { set: { b: 1e300, c: Array(200).fill(1e300) } }), 'too_large')
})

t.test('keeps the size exact once it is measured, from nothing and back to nothing', async (t) => {
  const owner = ownerOf({})
  const values = ['"\\\u0001\n', '😀é\ud800', -0, 1e21, true, null, { 'k"': ['é'] }, [], parseStoredJson('9007199254740993')]
  measureOwner(owner)

  for (const [i, value] of [...values, ...values.toReversed()].entries()) {
    changeProperties(owner, { set: { [`"${i % 4}\u0002é`]: value, 7: i }, setOnce: { once: value }, unset: [`"${(i + 1) % 4}\u0002é`] })
    t.equal(owner.sizeBound, measureProperties(owner.properties))
  }
  changeProperties(owner, { set: { gone: 1 }, unset: [...Object.keys(owner.properties), 'gone', 'gone'] })
  t.same([owner.properties, owner.sizeBound], [{}, 2])
})

t.test('accepts properties of exactly the limit, and refuses one byte more', async (t) => {
  const most = 'x'.repeat(MAX_PROPERTIES_BYTES - '{"k":""}'.length)

  const owner = ownerOf({ k: '' })
  t.equal(changeProperties(owner, { set: { k: `${most}x` } }), 'too_large')
  t.equal(changeProperties(owner, { set: { k: most } }), 'done')
  t.equal(changeProperties(owner, { setOnce: { j: 1 } }), 'too_large')
  t.equal(changeProperties(owner, { set: { k: most } }), 'done', 'nothing is different')
  t.equal(changeProperties(owner, { set: { j: 1 }, unset: ['j'] }), 'done')
  t.equal(owner.sizeBound, MAX_PROPERTIES_BYTES)
})
