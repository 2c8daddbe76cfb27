import { tokenizeSql } from 'chdb-server/sql-lexer'

export interface Parameter { name: string, type: string }

/** The parameters of a query, in the order of their first use. */
export function findParameters (sql: string): Parameter[] {
  const tokens = tokenizeSql(sql).filter(({ kind }) => kind !== 'comment')
  const found = new Map<string, Parameter>()
  tokens.forEach((token, index) => {
    const [name, colon] = [tokens[index + 1], tokens[index + 2]]
    if (token.text !== '{' || name?.kind !== 'word' || colon?.text !== ':') return
    const end = tokens.findIndex((each, at) => at > index && each.text === '}')
    if (end <= index + 3) return
    const text = sql.slice(name.start, name.end)
    const type = sql.slice(tokens[index + 3]?.start, tokens[end - 1]?.end)
    if (!found.has(text)) found.set(text, { name: text, type })
  })
  return [...found.values()]
}

/** The value that was chosen for a parameter; its name may be any word, such as `constructor`. */
export function parameterValue (values: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined
}

/** The part of a link behind the `#`: a query and its values, whose names begin with `param_`, as one may be `sql`. */
export function writeLink (query: string, values: Readonly<Record<string, string>>): string {
  const named = Object.entries(values).map(([name, value]) => [`param_${name}`, value])
  return new URLSearchParams({ ...Object.fromEntries(named), sql: query }).toString()
}

/** Also of a link as it was before `param_`. @returns undefined where a link has no query. */
export function readLink (hash: string): { query: string, parameters: Record<string, string> } | undefined {
  const link = new URLSearchParams(hash)
  const query = link.get('sql')
  if (query === null) return undefined
  const values = [...link].filter(([name]) => name.startsWith('param_')).map(([name, value]) => [name.slice('param_'.length), value])
  return { query, parameters: Object.fromEntries(values.length > 0 ? values : [...link].filter(([name]) => name !== 'sql')) }
}

/** What a parameter of this name is before somebody chose a value: the project, and the last 30 days. */
export function defaultValue (name: string, { project, now }: { project: number, now: number }): string {
  const day = (ms: number): string => new Date(ms).toISOString().slice(0, 10)
  switch (name) {
    case 'project': return String(project)
    case 'from': return day(now - 30 * 86_400_000)
    case 'to': return day(now + 86_400_000)
    case 'timezone': return 'UTC'
    default: return ''
  }
}
