/** Names that every object of JavaScript has, wherever a client of the embedded ClickHouse server may choose a name. */
import t from 'tap'
import { startTestServer } from 'chdb-server/testing'
import { PROTOTYPE_NAMES } from '../support/prototype-names.ts'

t.test('as parameters, settings, columns and headers of SQL they are what they are called', async (t) => {
  const server = await startTestServer(t, { owner: 'millrace', database: 'millrace' })
  for (const name of PROTOTYPE_NAMES) {
    for (const user of ['analyst', 'millrace']) {
      const given = await server.ask(`SELECT {${name}:String} AS \`${name}\` FORMAT TSVWithNames`, {
        user, params: { [`param_${name}`]: name, query_id: `${user} ${name}`, session_id: name }, headers: { [`x-${name}`]: name }
      })
      t.equal(given.text, `${name}\n${name}\n`)
      const odd = [
        await server.ask('SELECT 1', { user, params: { [name]: name } }), await server.ask('SELECT 1', { user, params: { default_format: name, database: name } }),
        await server.ask(`SELECT ${name}(1) FROM ${name} SETTINGS ${name} = 1 FORMAT ${name}`, { user }), await server.ask(`${name} 1`, { user }),
        await server.ask('INSERT INTO x FORMAT CSV', { user, body: '1', headers: { 'content-encoding': name } }),
        await server.ask(`SELECT 1::${name}, CAST(1, '${name}'), arrayReduce('${name}', [1])`, { user, params: { client_protocol_version: '54460', default_format: 'Native' } })
      ]
      for (const { code, status, text } of odd) t.ok(code !== 1002 && (status === 200 || code > 0), `${user} ${name}: ${status} ${text.slice(0, 200)}`)
    }
  }
})
