import t from 'tap'
import { readString } from './read-arguments.ts'

t.test('a text is measured in characters, and refused when no column can hold it', async (t) => {
  const read = readString(5)

  for (const text of ['a', 'short', '😀'.repeat(5)]) t.equal(read(text), text)
  for (const text of ['', ' ', 'longer', '😀'.repeat(6), 'a\0b', 'a\ud800']) t.throws(() => read(text), /1 to 5 characters/, JSON.stringify(text))
})
