/**
 * Addresses of names that a stranger may choose. Of `dns.lookup` two run at once in a process: two names whose servers
 * are silent would delay every connection by name. So DNS is asked without it; it is left for names that DNS answers
 * without an address, and for one at a time, as the other one is for the stores.
 */
import { type LookupAddress, promises } from 'node:dns'
import { readFile } from 'node:fs/promises'
import { isIP, type LookupFunction } from 'node:net'
import path from 'node:path'
import { errorCode } from '../../engines/errors.ts'
import { createSemaphore } from '../../platform/semaphore.ts'

/** @throws when there is no address. */
export type Resolve = (name: string) => Promise<LookupAddress[]>

/** Nobody waits longer to connect. */
const lookups = createSemaphore({ limit: 1, maxWaitMs: 10_000 })

/**
 * @param options.likeMachine  Hosts file and search list count, in the order of `getaddrinfo`: `hooks.dev` may be a
 *   service of this cluster, or a stranger's host.
 * @param options.etc  Folder of `hosts` and `resolv.conf`.
 */
export function createResolve (
  { likeMachine, servers, etc = '/etc' }: { likeMachine: boolean, servers?: readonly string[], etc?: string }
): Resolve {
  const read = async (file: string): Promise<string> => likeMachine ? await readFile(path.join(etc, file), 'utf8').catch(() => '') : ''
  return async (name) => {
    const listed = findHost(await read('hosts'), name)
    if (listed.length > 0) return toAddresses(listed)
    let refused: unknown
    for (const candidate of qualify(name, await read('resolv.conf'))) {
      const found = await askDns(candidate, servers).catch((error: unknown) => {
        // A silent server might have had an address, so no further name is asked for.
        if (errorCode(error) !== 'ESERVFAIL') throw error
        refused ??= error
        return []
      })
      if (found.length > 0) return toAddresses(found)
    }
    if (refused !== undefined) throw refused
    return await lookups.run(async () => await promises.lookup(name, { all: true }))
  }
}

/** For sockets, which ask for all addresses. */
export function lookupBy (resolve: Resolve): LookupFunction {
  return (name, _, done) => { resolve(name).then((found) => done(null, found), (error) => done(error, [])) }
}

const toAddresses = (found: readonly string[]): LookupAddress[] =>
  found.map((address) => ({ address, family: isIP(address) }))

function findHost (hosts: string, name: string): string[] {
  return hosts.split('\n').flatMap((line) => {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().toLowerCase().split(/\s+/)
    return isIP(address) !== 0 && names.includes(name) ? [address] : []
  })
}

/** The names that are asked for, by the search list and `ndots` of a resolv.conf. */
function qualify (name: string, conf: string): string[] {
  const [, list = ''] = [...conf.matchAll(/^(?:search|domain)\s(.*)$/gm)].at(-1) ?? []
  const [, ndots = '1'] = /^options\s.*\bndots:(\d+)/m.exec(conf) ?? []
  const searched = name.endsWith('.') ? [] : list.split(/\s+/).filter((domain) => /\w/.test(domain)).map((domain) => `${name}.${domain}`)
  return name.split('.').length > Number(ndots) ? [name, ...searched] : [...searched, name]
}

/** @throws when a server is silent, or cannot say. */
async function askDns (name: string, servers?: readonly string[]): Promise<string[]> {
  const resolver = new promises.Resolver({ timeout: 2000, tries: 2 })
  if (servers !== undefined) resolver.setServers(servers)
  const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
  const found = answers.flatMap((answer) => answer.status === 'rejected' ? [] : answer.value)
  const reasons = answers.flatMap((answer) => answer.status === 'rejected' ? [answer.reason] : [])
  const silent = reasons.find((reason) => ['ETIMEOUT', 'ESERVFAIL'].includes(errorCode(reason)))
  if (found.length === 0 && silent !== undefined) throw silent
  return found
}
