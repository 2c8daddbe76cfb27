import t from 'tap'
import { isIllegalDistinctId } from './merge-persons.ts'

t.test('recognises what clients send when they have no id', async (t) => {
  const illegal = [
    'anonymous', 'GUEST', 'distinctId', 'distinct_id', 'ID', 'not_authenticated', 'Email', 'undefined', 'TRUE', 'false',
    '[object Object]', 'NaN', 'None', 'none', 'null', '0', '"null"', "'Anonymous'", '', '  ', '""', ' "0" ', '\t'
  ]
  t.same(illegal.filter((id) => !isIllegalDistinctId(id)), [])
})

t.test('accepts ids that only resemble those', async (t) => {
  const legal = ['user_1', 'NULL', 'nan', '[object object]', 'NONE', '00', 'anonymous-1', '"', 'id1', "'null\"", '$device:0']
  t.same(legal.filter((id) => isIllegalDistinctId(id)), [])
})
