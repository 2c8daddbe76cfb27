import t from 'tap'
import { rememberRecent } from './recent-answers.ts'

t.test('asks once for a key in use, and again for what two generations have not used', async (t) => {
  const asked: string[] = []
  const recall = rememberRecent((key) => { asked.push(key); return key === 'none' ? null : key.length }, { size: 2, longestKey: 10 })

  for (const key of ['a', 'a', 'none', 'none', 'b', 'a']) recall(key)
  t.same(asked, ['a', 'none', 'b'], 'null is an answer, too')
  t.equal(recall('none'), null)
  for (const key of ['c', 'd', 'e', 'f', 'b']) recall(key)
  t.same(asked.slice(3), ['c', 'd', 'e', 'f', 'b'])
})

t.test('a key that is too long is answered and not remembered', async (t) => {
  let asked = 0
  const recall = rememberRecent((key) => { asked++; return key.length }, { size: 2, longestKey: 3 })

  for (const key of ['123', '123', '1234', '1234', '1234']) t.equal(recall(key), key.length)
  t.equal(asked, 4)
})
