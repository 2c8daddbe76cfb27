import { createSocket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import t from 'tap'
import { request } from 'undici'
import { createGuardedAgent } from './notify/guard-addresses.ts'
import { createResolve } from './resolve-name.ts'

/** Knows names below `example` and `hooks.dev.svc.local`, is silent about `silent`, and has no other. */
const dns = createSocket('udp4').bind(0, '127.0.0.1')
await once(dns, 'listening')
t.teardown(() => dns.close())
const asked: string[] = []
dns.on('message', (query, { port, address }) => {
  const end = query.indexOf(0, 12)
  const name = query.toString('latin1', 13, end).replaceAll(/[^\w-]/g, '.')
  // Not the repetitions of the names above.
  if (query.readUInt16BE(end + 1) === 1 && !/^silent\d/.test(name)) asked.push(name)
  if (name.includes('silent')) return
  const isKnown = /example$|^hooks\.dev\.svc\.local$/.test(name)
  const isA = isKnown && query.readUInt16BE(end + 1) === 1
  const header = Buffer.from([query[0]!, query[1]!, 0x81, isKnown ? 0x80 : 0x83, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0])
  const answer = isA ? Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 10, 0, 0, name.startsWith('hooks') ? 8 : 7]) : Buffer.alloc(0)
  dns.send(Buffer.concat([header, query.subarray(12, end + 5), answer]), port, address)
})
const servers = [`127.0.0.1:${dns.address().port}`]

for (const allowed of ['', '10.0.0.8']) {
  t.test(`names whose servers are silent delay no other one; an address from DNS is checked (allowed: ${allowed})`, async (t) => {
    const resolve = createResolve({ likeMachine: allowed !== '', servers, etc: t.testdir({}) })
    const agent = createGuardedAgent({ allowed, connectTimeoutMs: 60_000, resolve })
    let ended = 0
    const silent = [1, 2, 3, 4].map(async (at) => await request(`http://silent${at}.example/`, { dispatcher: agent }).finally(() => ended++))
    const failed = Promise.all(silent.map(async (each) => { await t.rejects(each) }))
    await lookup('localhost')
    await t.rejects(request('http://inside.example/', { dispatcher: agent }), { code: 'MILLRACE_ADDRESS_REFUSED', message: /^10\.0\.0\.7 is a private/ })
    t.equal(ended, 0, 'no lookup waits')
    await agent.destroy()
    await failed
  })
}

t.test('a name is found as the machine finds it: by the hosts file, and by the search list before or after the name itself', async (t) => {
  const etc = t.testdir({
    hosts: '127.0.0.1 localhost\n10.0.0.9\tminio.lan  Minio # of the rack\n#10.0.0.1 hooks.dev\n',
    'resolv.conf': 'nameserver 127.0.0.1\nsearch lan\nsearch ns.svc.local svc.local .\noptions edns0 ndots:2\n'
  })
  const [machine, strict] = [true, false].map((likeMachine) => createResolve({ likeMachine, servers, etc }))
  const find = async (name: string, resolve = machine): Promise<unknown> => {
    asked.length = 0
    const found = await resolve!(name).catch((error: NodeJS.ErrnoException) => error.code)
    return [Array.isArray(found) ? found.map(({ address }) => address) : found, ...asked]
  }
  t.same(await find('minio'), [['10.0.0.9']])
  t.same(await find('hooks.dev'), [['10.0.0.8'], 'hooks.dev.ns.svc.local', 'hooks.dev.svc.local'])
  t.same(await find('a.b.example'), [['10.0.0.7'], 'a.b.example'])
  t.same(await find('silent.dev'), ['ETIMEOUT', 'silent.dev.ns.svc.local', 'silent.dev.ns.svc.local'], 'no further name, which may be a stranger\'s')
  t.same(await find('one.example', strict), [['10.0.0.7'], 'one.example'])
})
