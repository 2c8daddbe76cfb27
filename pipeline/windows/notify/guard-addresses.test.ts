import http from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { request } from 'undici'
import { createGuardedAgent, refusedRange } from './guard-addresses.ts'

t.test('addresses that are not public are refused, however they are written', async (t) => {
  const refused = [
    '127.0.0.1', '127.8.9.1', '10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', '169.254.169.254', '100.64.0.1',
    '100.100.100.200', '0.0.0.0', '192.0.0.192', '198.18.0.1', '203.0.113.5', '224.0.0.1', '240.0.0.1', '255.255.255.255',
    '168.63.129.16', '::', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1', '::ffff:a9fe:a9fe', '::127.0.0.1', '::7f00:1', '4000::1', '::ffff:0:127.0.0.1',
    'fe80::1', 'fe80::1%eth0', 'fc00::1', 'fd00:ec2::254', 'fec0::1', 'ff02::1', '64:ff9b::7f00:1', '64:ff9b:1::7f00:1', '2002:7f00:1::',
    '2001::1', '2001:db8::1', '100::1'
  ]
  for (const address of refused) t.not(refusedRange(address, []), null, address)
  for (const address of ['8.8.8.8', '1.1.1.1', '172.32.0.1', '::ffff:8.8.8.8', '2606:4700::1111']) t.equal(refusedRange(address, []), null, address)
})

t.test('a setting allows ranges, and nothing beside them', async (t) => {
  t.equal(refusedRange('10.1.2.3', ['10.1.0.0/16']), null)
  t.equal(refusedRange('::ffff:10.1.2.3', ['10.1.0.0/16']), null)
  t.equal(refusedRange('10.2.2.3', ['10.1.0.0/16']), 'private')
  t.equal(refusedRange('127.0.0.1', ['127.0.0.1']), null)
  t.equal(refusedRange('127.0.0.2', ['127.0.0.1']), 'loopback')
  t.equal(refusedRange('127.0.0.2', ['loopback']), null)
  t.equal(refusedRange('10.0.0.1', ['loopback']), 'private')
  t.equal(refusedRange('fd00::1', ['uniquelocal']), null)
})

t.test('nothing is dialled by a literal address, or by a name whose address changed', async (t) => {
  let requests = 0
  const server = http.createServer((_, response) => { requests++; response.end('ok') }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const strict = createGuardedAgent({ allowed: '', connectTimeoutMs: 1000 })
  t.teardown(async () => await strict.close())
  const spellings = ['127.0.0.1', '127.1', '0x7f.1', '0x7f000001', '2130706433', '017700000001', '0177.0.0.1', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', 'localhost', '①②⑦.0.0.1']
  for (const host of spellings) {
    await t.rejects(request(`http://${host}:${port}/`, { dispatcher: strict }), { code: 'MILLRACE_ADDRESS_REFUSED' }, host)
  }
  t.equal(requests, 0)

  const answers = ['127.0.0.1', '127.0.0.2']
  const changing = createGuardedAgent({
    allowed: '127.0.0.1/32', connectTimeoutMs: 1000,
    resolve: async () => [{ address: answers.shift() ?? '', family: 4 }]
  })
  t.teardown(async () => await changing.close())
  const first = await request(`http://name.example:${port}/`, { dispatcher: changing })
  await first.body.dump()
  await t.rejects(request(`http://name.example:${port}/`, { dispatcher: changing }), { code: 'MILLRACE_ADDRESS_REFUSED' })
  t.equal(requests, 1)
})
