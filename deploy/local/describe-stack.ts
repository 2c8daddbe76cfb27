import { type Stack } from './start-stack.ts'

/** Everything one needs to begin, as one block of text. */
export function describeStack (stack: Stack, durationMs: number): string {
  const { addresses, credentials } = stack
  const clickhouse = describeClickHouse(stack)
  const personalKey = stack.knowsPersonalKey
    ? credentials.personalApiKey
    : 'not the one of this data directory; the database existed before'
  return `
Millrace is ready after ${(durationMs / 1000).toFixed(1)} s.

  Base URL           ${addresses.baseUrl}
  Project API key    ${credentials.projectApiKey}
  Personal API key   ${personalKey}
  ClickHouse URL     ${clickhouse.url}
  Read-only login    ${clickhouse.login}
  Data and logs      ${stack.dataDir}

Send an event:

  curl -X POST ${addresses.baseUrl}/capture/ -H 'content-type: application/json' \\
    -d '{"api_key": "${credentials.projectApiKey}", "event": "hello", "distinct_id": "you"}'

Read it back:

  curl '${clickhouse.queryUrl}' --user '${clickhouse.user}' \\
    -d 'SELECT timestamp, event, distinct_id FROM events ORDER BY received_at DESC LIMIT 5 FORMAT PrettyCompact'

Ctrl-C stops everything.
`
}

/** For a ClickHouse of the operator's own, its password is not repeated and no analyst's login is known. */
function describeClickHouse (stack: Stack): { url: string, login: string, queryUrl: string, user: string } {
  const { protocol, host, pathname, username } = new URL(stack.addresses.clickhouseUrl)
  const database = pathname.slice(1) || 'default'
  const url = `${protocol}//${host}`
  const queryUrl = `${url}/?database=${database}`
  if (stack.isClickHouseEmbedded) {
    const { analystPassword } = stack.credentials
    return {
      url: `${url} (database ${database})`, login: `analyst / ${analystPassword}`, queryUrl, user: `analyst:${analystPassword}`
    }
  }
  return {
    url: `${url} (database ${database}, from CLICKHOUSE_URL)`,
    login: 'as your ClickHouse has it',
    queryUrl,
    user: `${username || 'default'}:<password>`
  }
}
