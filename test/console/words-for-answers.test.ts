/** The console has a word for each value that the API may answer. */
import t from 'tap'
import { KEYWORDS } from '../../console/web/schemas/event-schemas.ts'
import { OPERATORS } from '../../console/web/flags/flag-filters.ts'
import { OBJECT_KEYWORDS } from '../../engines/json-schema/compile-object.ts'
import { VALUE_KEYWORDS } from '../../engines/json-schema/compile-value.ts'
import { PROPERTY_OPERATORS } from '../../engines/operators/property-operators.ts'

t.test('the console has words for every keyword by which an event can fail', async (t) => {
  const onlyBelow = ['properties', 'patternProperties', 'items']
  const failing = [...OBJECT_KEYWORDS, ...Object.keys(VALUE_KEYWORDS), 'anyOf', 'oneOf', 'not', 'false', 'limit'].filter((keyword) => !onlyBelow.includes(keyword))
  t.same(failing.filter((keyword) => KEYWORDS[keyword] === undefined), [])
  t.same(Object.keys(KEYWORDS).filter((keyword) => !failing.includes(keyword)), [])
})

t.test('the console has words for every operator that flags know', async (t) => {
  t.same(Object.keys(OPERATORS), PROPERTY_OPERATORS)
})
