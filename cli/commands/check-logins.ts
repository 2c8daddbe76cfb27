import { text } from 'node:stream/consumers'
import { type ClickHouse, connectClickHouse, queryRows, systemTable } from '../../platform/clickhouse/connect-clickhouse.ts'
import { checkGrant, compareWithItself, countRowsOf } from '../../schema/check-statements.ts'
import { readClickHouseLogins } from './logins.ts'

/** What each login asks of the system tables of all nodes. */
const ASKED_BY: Record<string, readonly string[]> = {
  millrace_owner: ['tables', 'columns', 'replicas'],
  millrace_pipeline: ['parts', 'disks', 'detached_parts', 'mutations', 'one', 'processes', 'replicas', 'replication_queue', 'tables'],
  millrace_api: ['parts', 'disks'],
  analyst: []
}

export const CHECKED_LOGINS: readonly string[] = Object.keys(ASKED_BY)

/** The variable of `millrace logins create` with the password of a login. */
export function variableOf (login: string): string {
  return `CLICKHOUSE_${login.replace('millrace_', '').toUpperCase()}_PASSWORD`
}

export interface FindLoginFaultsOptions {
  /** Of the database of the tables, with any login. */
  url: string
  /** Empty: one node. */
  cluster: string
  /** Passwords of tiers, by login; those without one are not tried. */
  passwords: ReadonlyMap<string, string>
}

/**
 * Logs in as each tier: it must have each right that `deploy/clickhouse/*.sql` grants, which is what the statements of
 * the product need (`npm run check:cluster`), and be answered when it asks all shards.
 *
 * @returns the faults by login; undefined: not tried.
 */
export async function findLoginFaults (
  { url, cluster, passwords }: FindLoginFaultsOptions
): Promise<{ login: string, faults: string[] | undefined }[]> {
  const rights = await readRights(new URL(url).pathname.slice(1))
  return await Promise.all(CHECKED_LOGINS.map(async (login) => {
    const password = passwords.get(login)
    if (password === undefined) return { login, faults: undefined }
    const own = Object.assign(new URL(url), { username: login, password: encodeURIComponent(password) })
    const client = connectClickHouse({ url: own.href, cluster })
    const all = cluster === '' ? '' : `${own.pathname.slice(1)}_all.`
    const statements = [
      compareWithItself(all), ...(ASKED_BY[login] ?? []).map((table) => countRowsOf(systemTable(cluster, table)))
    ]
    const tries = async (queries: readonly string[], run: (query: string) => Promise<unknown>): Promise<string[]> =>
      (await Promise.all(queries.map(async (query) => await run(query).then(() => [], (error: unknown) =>
        [`is refused "${query}": ${String(error).slice(0, 300)}; run "millrace logins create"`])))).flat()
    const refused = await tries(statements, async (query) => await queryRows(client, query))
    // Who cannot log in need not be asked for each right.
    const needed = refused.length > 0 ? [] : rights.get(login) ?? []
    const lacking = await tries(needed, async (right) => await requireRight(client, right))
    await client.close()
    return { login, faults: [...refused, ...lacking] }
  }))
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
