import { createHash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { compileFlagSet, evaluateFlags, tryFlags } from './evaluate-flags.ts'
import type { FlagDefinition } from './flag-definition.ts'
import type { Outcome } from './flag-outcome.ts'
import { hashForHoldout, hashIdentifier } from './rollout-hash.ts'
import { NO_FACTS, type StoredFacts, type Subject } from './subject.ts'
import { buildDefinitions, buildFlag, buildSubject } from './testing/build-definitions.ts'

function evaluateOne (flag: FlagDefinition, rest: Partial<Subject> = {}): Outcome {
  const set = compileFlagSet(buildDefinitions([flag]))
  return tryFlags(set, buildSubject('u1', { stored: NO_FACTS, ...rest }), [0])!.outcomes[0]!
}

function person (key: string, value: unknown, operator = 'exact'): object {
  return { key, value, operator, type: 'person' }
}

t.test('stored facts are read once, and only when an answer depends on them', async (t) => {
  const set = compileFlagSet(buildDefinitions([
    buildFlag('rollout', { groups: [{ rollout_percentage: 50 }] }),
    buildFlag('plan', { groups: [{ properties: [person('plan', 'pro')] }] }),
    buildFlag('both', { groups: [{ properties: [person('email', '@x', 'icontains'), person('plan', 'pro')] }] }),
    buildFlag('dependent', { groups: [{ properties: [{ key: 'plan', value: true, type: 'flag' }] }] })
  ]))
  let reads = 0
  const read = async (): Promise<StoredFacts> => {
    reads++
    return { ...NO_FACTS, properties: { plan: 'pro', email: 'a@x' } }
  }
  const all = [0, 1, 2, 3]

  await evaluateFlags(set, buildSubject('u1'), [0], read)
  await evaluateFlags(set, buildSubject('u1', { personOverrides: { plan: 'free' } }), all, read)
  t.equal(reads, 0, 'a filter that surely fails decides without the others')
  const { outcomes } = await evaluateFlags(set, buildSubject('u1'), all, read)
  t.equal(reads, 1)
  t.same(outcomes.slice(1).map(({ value }) => value), [true, true, true])
})

t.test('without Postgres the flags that need nothing stored are computed, the others failed', async (t) => {
  const set = compileFlagSet(buildDefinitions([
    buildFlag('rollout', { groups: [{ rollout_percentage: 100 }] }),
    buildFlag('plan', { groups: [{ properties: [person('plan', 'pro')] }] }),
    buildFlag('sticky', { groups: [{ rollout_percentage: 50 }] }, { ensure_experience_continuity: true }),
    buildFlag('sticky-for-all', { groups: [{ rollout_percentage: 100 }] }, { ensure_experience_continuity: true })
  ]))

  const { outcomes, hasErrors } = await evaluateFlags(set, buildSubject('u1'), [0, 1, 2, 3], async () => null)

  t.same(outcomes.map(({ failed }) => failed), [false, true, true, false])
  t.equal(outcomes[1]?.reason, 'database_error')
  t.equal(hasErrors, true)
})

t.test('experience continuity hashes what was stored, else the anonymous id, else the distinct id', async (t) => {
  const flag = buildFlag('beta', { groups: [{ rollout_percentage: 50 }] }, { ensure_experience_continuity: true })
  const on = (rest: Partial<Subject>): unknown => evaluateOne(flag, rest).value
  const counted = { ...flag, ensure_experience_continuity: false }
  const plain = (distinctId: string): unknown => evaluateOne(counted, { distinctId }).value
  const ids = Array.from({ length: 40 }, (_, i) => `a${i}`)

  for (const id of ids) {
    const hashKeyOverrides = new Map([['beta', id]])
    t.equal(on({ distinctId: 'u1', anonDistinctId: 'other', stored: { ...NO_FACTS, hashKeyOverrides } }), plain(id))
    t.equal(on({ distinctId: 'u1', anonDistinctId: id }), plain(id))
    t.equal(on({ distinctId: id }), plain(id))
  }
})

t.test('a missing initial property falls back to the current one', async (t) => {
  const flag = (key: string): FlagDefinition => buildFlag('f', { groups: [{ properties: [person(key, 'x')] }] })

  t.equal(evaluateOne(flag('$initial_browser'), { personOverrides: { $browser: 'x' } }).value, true)
  t.equal(evaluateOne(flag('$initial_utm_source'), { personOverrides: { utm_source: 'x' } }).value, true)
  t.equal(evaluateOne(flag('$initial_plan'), { personOverrides: { $plan: 'x' } }).value, false)
  const stored = { ...NO_FACTS, properties: { $initial_browser: 'y' } }
  t.equal(evaluateOne(flag('$initial_browser'), { personOverrides: { $browser: 'x' }, stored }).value, false)
})

t.test('properties with the names of inherited fields are absent like any other', async (t) => {
  for (const key of ['constructor', 'toString', '__proto__']) {
    const flag = buildFlag('f', { groups: [{ properties: [{ key, operator: 'is_set', type: 'person' }] }] })
    t.equal(evaluateOne(flag, { personOverrides: {} }).value, false, key)
  }
})

t.test('gives the check values of the protocol', async (t) => {
  const cases: Array<[string, string, number, number]> = [
    ['simple-flag', 'distinct_id_0', 0.7836963764220432, 0.6595248869787484],
    ['simple-flag', 'distinct_id_1', 0.3397069926995401, 0.5071592428363415],
    ['simple-flag', 'distinct_id_2', 0.3720434350239052, 0.7657377960463857],
    ['beta', 'u1', 0.8783111789736683, 0.7117881554403125],
    ['multivariate-flag', 'distinct_id_0', 0.502037796130735, 0.6186454537930379]
  ]

  for (const [key, id, rollout, variant] of cases) {
    t.equal(hashIdentifier(key, id, ''), rollout, `${key} ${id}`)
    t.equal(hashIdentifier(key, id, 'variant'), variant, `${key} ${id} variant`)
  }
  t.equal(hashForHoldout('u1'), 0.5110294319411994)
})

t.test('an empty identifier is always in', async (t) => {
  t.equal(hashIdentifier('any', '', ''), 0)
  t.equal(hashIdentifier('any', '', 'variant'), 0)
})

t.test('agrees with the platform SHA-1 on every text, short or long, ASCII or not', async (t) => {
  const text = fc.oneof(fc.string({ maxLength: 70 }), fc.string({ unit: 'binary', maxLength: 60 }))

  fc.assert(fc.property(text, text.filter((id) => id !== ''), (key, id) => {
    const hex = createHash('sha1').update(`${key}.${id}`).digest('hex').slice(0, 15)
    return hashIdentifier(key, id, '') === Number.parseInt(hex, 16) / 2 ** 60
  }), { numRuns: 2000 })
  t.pass('2000 texts')
})

t.test('agrees at every length around the border of one block', async (t) => {
  for (let length = 1; length <= 130; length++) {
    const id = 'x'.repeat(length)
    const hex = createHash('sha1').update(`k.${id}`).digest('hex').slice(0, 15)
    if (hashIdentifier('k', id, '') !== Number.parseInt(hex, 16) / 2 ** 60) t.fail(`length ${length}`)
  }
  t.pass()
})
