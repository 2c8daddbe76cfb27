import t from 'tap'
import { changeProperties, MAX_PROPERTIES_BYTES, measureProperties } from './change-properties.ts'
import type { Properties, PropertyOwner } from './persons-state.ts'

function ownerOf (properties: Properties): PropertyOwner {
  return { properties, sizeBound: measureProperties(properties), changed: false }
}

t.test('sets once what is absent, then sets, then unsets', async (t) => {
  const owner = ownerOf({ a: 1, b: 1, c: 1 })

  t.equal(changeProperties(owner, { set: { b: 2, c: 2 }, setOnce: { a: 3, d: 3 }, unset: ['c', 'absent'] }), 'done')

  t.strictSame(owner.properties, { a: 1, b: 2, d: 3 })
  t.ok(owner.changed)
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
