import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { guardFormulas } from './answer-query.ts'

/** What comes out for text that comes in such pieces. */
async function guarded (...pieces: string[]): Promise<string> {
  return await text(Readable.from(pieces.map((piece) => Buffer.from(piece))).pipe(guardFormulas()))
}

/** As ClickHouse writes it, and as it is to be. */
const CASES = [
  ['"event","n"\n"=HYPERLINK(""http://x"",""y"")",1\n', '"event","n"\n"\'=HYPERLINK(""http://x"",""y"")",1\n'],
  ['"=first"\n', '"\'=first"\n'],
  ['"+1","-1","@a","\ta","\ra"\n', '"\'+1","\'-1","\'@a","\'\ta","\'\ra"\n'],
  ['-1,+2,"a=b","a,""=b""\n=c",""\n', '-1,+2,"a=b","a,""=b""\n=c",""\n'],
  ['"""=a""";"=b"\r\n', '"""=a""";"\'=b"\r\n'],
  ['"abc,"\r\n"","=é"\n', '"abc,"\r\n"","\'=é"\n'],
  ['', '']
] as const

t.test('a text that a spreadsheet would run begins with an apostrophe, whatever is around it', async (t) => {
  for (const [sent, wanted] of CASES) t.equal(await guarded(sent), wanted, JSON.stringify(sent))
})

t.test('it is the same in pieces of any size', async (t) => {
  for (const [sent, wanted] of CASES) {
    for (let size = 1; size < 6; size++) {
      const bytes = Buffer.from(sent)
      const starts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => index * size)
      const pieces = starts.map((start) => bytes.subarray(start, start + size))
      t.equal(await text(Readable.from(pieces).pipe(guardFormulas())), wanted, `${size}: ${JSON.stringify(sent)}`)
    }
  }
})
