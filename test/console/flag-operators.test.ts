import t from 'tap'
import { PROPERTY_OPERATORS } from '../../engines/operators/property-operators.ts'
import { OPERATORS } from '../../console/web/flags/flag-filters.ts'

t.test('the console has words for every operator that flags know', async (t) => {
  t.same(Object.keys(OPERATORS), PROPERTY_OPERATORS)
})
