import { text } from 'node:stream/consumers'
import { type ClickHouse, connectClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { checkGrant, compareWithItself, type Finding, note, unless, wrong } from '../../schema/check-clickhouse.ts'
import { readClickHouseLogins } from './logins.ts'

export const CHECKED_LOGINS: readonly string[] = ['millrace_owner', 'millrace_pipeline', 'millrace_api', 'analyst']

/** The variable of `millrace logins create` with the password of a login. */
export function variableOf (login: string): string {
  return `CLICKHOUSE_${login.replace('millrace_', '').toUpperCase()}_PASSWORD`
}

export interface CheckLoginsOptions {
  /** Of the database of the tables, with any login. */
  url: string
  /** Empty: one node. */
  cluster: string
  /** Addresses of further nodes with the same login: each has logins and rights of its own. */
  nodes: readonly string[]
  /** Has the passwords of tiers; those without one are not tried. */
  env: NodeJS.ProcessEnv
}

/** What a login lacks at an address; undefined: not tried. */
interface LoginFaults { login: string, at: string, faults: string[] | undefined }

/**
 * Logs in as each tier, at each address: it must have each right that `deploy/clickhouse/*.sql` grants, which is what
 * the statements of the product need (`npm run check:cluster`), and be answered when it asks all shards.
 */
export async function checkLogins (options: CheckLoginsOptions): Promise<Finding[]> {
  const rights = await readRights(new URL(options.url).pathname.slice(1))
  const find = async (url: string, login: string): Promise<LoginFaults> =>
    ({ login, at: new URL(url).host, faults: await findFaults({ ...options, url }, login, rights.get(login) ?? []) })
  return compareLogins(await Promise.all([options.url, ...options.nodes].flatMap((url) =>
    CHECKED_LOGINS.map(async (login) => await find(url, login)))))
}

async function findFaults (
  { url, cluster, env }: CheckLoginsOptions, login: string, rights: readonly string[]
): Promise<string[] | undefined> {
  const password = env[variableOf(login)] ?? ''
  if (password === '') return undefined
  const own = Object.assign(new URL(url), { username: login, password: encodeURIComponent(password) })
  const client = connectClickHouse({ url: own.href, cluster })
  const attempt = async (query: string, run: Promise<unknown>): Promise<string[]> => await run.then(() => [],
    (error: unknown) => [`is refused "${query}": ${String(error).slice(0, 300)}; run "millrace logins create"`])
  const query = compareWithItself(cluster === '' ? '' : `${own.pathname.slice(1)}_all.`)
  const refused = await attempt(query, queryRows(client, query))
  // Who cannot log in need not be asked for each right.
  const lacking = await Promise.all((refused.length > 0 ? [] : rights)
    .map(async (right) => await attempt(right, requireRight(client, right))))
  await client.close()
  return [...refused, ...lacking.flat()]
}

export function compareLogins (found: readonly LoginFaults[]): Finding[] {
  return [...Map.groupBy(found, ({ login }) => login)].flatMap(([login, nodes]) =>
    nodes.every(({ faults }) => faults === undefined)
      ? [note(`${login} was not tried: set ${variableOf(login)}`)]
      : unless(nodes.flatMap(({ at, faults = [] }) => faults.map((fault) => wrong(`${login} at ${at} ${fault}`))),
        `${login} has each right of deploy/clickhouse at ${nodes.length} addresses, and may ask what it asks`))
}

async function requireRight (client: ClickHouse, right: string): Promise<void> {
  // The statement takes no FORMAT, which a query of the client ends with.
  const { stream } = await client.exec({ query: checkGrant(right) })
  if ((await text(stream)).trim() !== '1') throw new Error('not granted')
}

/** What deploy/clickhouse grants each login, a role counted as those who have it. */
async function readRights (database: string): Promise<Map<string, string[]>> {
  const rights = new Map<string, string[]>()
  for (const statement of await readClickHouseLogins()) {
    const [, what = '', to = ''] = /^GRANT ([^]+) TO (\w+)$/.exec(statement) ?? []
    if (what === '') continue
    const ofRole = rights.get(what)
    rights.set(to, [...rights.get(to) ?? [], ...ofRole ?? [what.replace(/ ON millrace(_all)?\./, ` ON ${database}$1.`)]])
  }
  return rights
}
