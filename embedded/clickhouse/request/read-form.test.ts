import t from 'tap'
import { formBoundary, parseForm } from './read-form.ts'

const field = (name: string, value: string): string => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`

t.test('reads the fields of a form, whatever stands in them', async (t) => {
  const value = "['a@b.com','--b','x\r\n\r\ny', 'ü\u0000']"
  const body = field('query', 'SELECT {x:Array(String)}') + field('param_x', value) + field('empty', '') + '--b--\r\n'

  t.same(parseForm(Buffer.from(body), 'b'), [['query', 'SELECT {x:Array(String)}'], ['param_x', value], ['empty', '']])
})

t.test('refuses a form that is cut off, names nothing, or brings a file', async (t) => {
  const file = '--b\r\nContent-Disposition: form-data; name="ids"; filename="ids.csv"\r\n\r\n1\r\n--b--\r\n'
  const cases: Array<[string, string, number]> = [
    ['no form at all', 'b', 36], [field('query', 'SELECT 1'), 'b', 36], ['--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--', 'b', 36],
    [field('query', 'SELECT 1') + '--b--', '', 36], [file, 'b', 344]
  ]
  for (const [body, boundary, code] of cases) t.throws(() => parseForm(Buffer.from(body), boundary), { code }, body)
})

t.test('knows a form by its type', async (t) => {
  const boundary = (type: string | undefined): string | undefined =>
    formBoundary({ headers: { 'content-type': type } } as Parameters<typeof formBoundary>[0])

  t.equal(boundary('multipart/form-data; boundary=abc'), 'abc')
  t.equal(boundary('Multipart/Form-Data; charset=UTF-8; boundary="a b"'), 'a b')
  t.equal(boundary('multipart/form-data'), '')
  t.equal(boundary('text/plain'), undefined)
  t.equal(boundary(undefined), undefined)
})
