import t from 'tap'
import { MillraceError } from '../engines/errors.ts'
import { isUnavailable } from './store-errors.ts'

function coded (code: unknown, name = 'Error'): Error {
  return Object.assign(new Error('failed'), { code, name })
}

t.test('knows an unavailable service by the tables of the stores, by names of NATS, and by causes', async (t) => {
  const cases: [unknown, boolean][] = [
    [coded('ECONNREFUSED'), true], [coded('MILLRACE_POSTGRES_CONNECTION_LOST'), true], [coded('57P03'), true], [coded('53300'), true],
    [coded('668'), true], [Object.assign(new Error('insert'), { clickhouseCode: 0 }), true],
    [coded(undefined, 'NoRespondersError'), true], [new Error('Timeout error.'), true],
    [new MillraceError('MILLRACE_X', 'x', { cause: new Error('y', { cause: coded('ECONNRESET') }) }), true],
    // Busy, wrong or unknown is not unavailable.
    [coded('241'), false], [coded('60'), false], [coded('42P01'), false], [coded('40001'), false], [coded('ENOENT'), false],
    [coded('ERR_INVALID_ARG_TYPE'), false], [new TypeError('bug'), false], [{}, false], ['text', false], [undefined, false]
  ]

  for (const [error, expected] of cases) t.equal(isUnavailable(error), expected, JSON.stringify(error))
})
