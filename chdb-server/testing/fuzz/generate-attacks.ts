import { ANALYST_LIMITS } from '../../engine/profiles.ts'
import { loadAllowList } from '../../analyst/allow-list.ts'

/** What the queries try to reach, and what of the running engine an analyst must not name. */
export interface Targets {
  /** A file whose content is known, without its extension: it is there with several. */
  file: string
  /** `host:port` of a server that counts connections. */
  server: string
  functions: readonly string[]
  tableFunctions: readonly string[]
  /** `database.table`. */
  tables: readonly string[]
  settings: readonly string[]
}

export interface Attack {
  /** The name that must not be reached. */
  name: string
  query: string
  /** Parameters of the URL. */
  params: Record<string, string>
}

type Ask = (query: string) => Promise<string[]>

/** Asks the engine for all it has, and leaves out what is allowed: what a new version brings is attacked as well. */
export async function findTargets (ask: Ask, where: { file: string, server: string }): Promise<Targets> {
  const allow = loadAllowList()
  const isFree = (name: string): boolean => !allow.functions.has(name) && !allow.aggregateFunctions.has(name)
  const functions = await ask("SELECT DISTINCT name FROM system.functions WHERE origin = 'System'")
  const tableFunctions = await ask('SELECT name FROM system.table_functions')
  const tables = await ask("SELECT name FROM system.tables WHERE database = 'system'")
  const settings = await ask('SELECT name FROM system.settings')
  return {
    ...where,
    functions: functions.filter((name) => isFree(name.toLowerCase())),
    tableFunctions: tableFunctions.filter((name) => !allow.tableFunctions.has(name.toLowerCase())),
    tables: [
      ...tables.filter((name) => !allow.systemTables.has(name) && !allow.maskedSystemTables.has(name)).map((name) => `system.${name}`),
      'chdb_server.query_log', 'chdb_server.tables', 'chdb_server.all_processes', 'chdb_server.processes',
      'chdb_server.running_queries', `default.${where.file}.csv`
    ],
    // A limit may be lowered: that one of them is raised is tried in `analyst.test.ts`.
    settings: settings.filter((name) => !allow.settings.has(name) && !allow.ignoredSettings.has(name) &&
      !ANALYST_LIMITS.has(name))
  }
}

/** Every expression place in which a call may hide. `@` is the name, `#` its argument. */
const CALLS = [
  'SELECT @(#)', 'SELECT @ (#) AS x', 'SELECT arrayMap(@, [#])', 'SELECT arrayMap(v -> @(v), [#])', 'SELECT * APPLY @ FROM (SELECT #)',
  'SELECT * APPLY(@) FROM (SELECT #)', 'SELECT * APPLY(v -> @(v)) FROM (SELECT #)', "SELECT COLUMNS('.*') APPLY(@) FROM (SELECT # AS a)",
  'WITH @(#) AS y SELECT y', 'WITH (v -> @(v)) AS g SELECT g(#)', 'SELECT (SELECT @(#))', "SELECT 1 WHERE @(#) != ''", 'SELECT 1 ORDER BY @(#)',
  'SELECT count() GROUP BY @(#)', 'SELECT count() HAVING @(#) = @(#)', 'SELECT if(1, @(#), @(#))', 'SELECT [@(#)]', 'SELECT (1, @(#)).2',
  'SELECT CASE WHEN 1 THEN @(#) END', 'SELECT * REPLACE(@(#) AS a) FROM (SELECT 1 AS a)', 'SELECT 1 UNION ALL SELECT @(#)', 'SELECT toString(@(#))',
  'SELECT 1 IN (SELECT @(#))', 'SELECT * FROM view(SELECT @(#))', 'SELECT row_number() OVER (ORDER BY @(#))', 'DESCRIBE (SELECT @(#))',
  'EXPLAIN SELECT @(#)', 'EXPLAIN PIPELINE SELECT @(#)', 'SELECT arrayFold((a, v) -> @(v), [#], #)', 'SELECT arraySort(v -> @(v), [#])',
  'WITH RECURSIVE r AS (SELECT @(#) AS n) SELECT n FROM r', 'SELECT a FROM (SELECT 1 AS k) AS l JOIN (SELECT 1 AS k, @(#) AS a) AS r USING k',
  'SELECT * FROM (SELECT @(#) AS a) ARRAY JOIN [a] AS b', 'SELECT count() FILTER (WHERE @(#) != #)', "SELECT mapApply((k, v) -> (k, @(v)), map('a', #))",
  'SELECT 1 LIMIT length(@(#))', 'SELECT # AS x, @(x)', 'FROM (SELECT # AS v) SELECT @(v)', 'SELECT DISTINCT ON (@(#)) 1', 'SELECT @(#) FROM numbers(1)'
]
/** Every place in which a table or table function may stand. `@` is all of it. */
const TABLES = [
  'SELECT * FROM @', 'SELECT count() FROM @', 'FROM @ SELECT *', 'DESCRIBE @', 'DESCRIBE TABLE @', 'DESC @', 'EXPLAIN SELECT * FROM @', 'EXPLAIN ESTIMATE SELECT * FROM @',
  'SELECT * FROM (SELECT * FROM @)', 'WITH c AS (SELECT * FROM @) SELECT * FROM c', 'SELECT * FROM view(SELECT * FROM @)', 'SELECT (SELECT count() FROM @)',
  'SELECT 1 IN (SELECT count() FROM @)', 'SELECT 1 UNION ALL SELECT count() FROM @', 'SELECT * FROM (SELECT 1) AS a CROSS JOIN @ AS b', 'SELECT EXISTS(SELECT * FROM @)',
  'SELECT * FROM numbers(1) AS a, @ AS b', 'SELECT t.* FROM @ AS t LIMIT 1', 'SELECT * APPLY toString FROM @ LIMIT 2', 'SELECT 1 WHERE 1 >= ALL (SELECT count() FROM @)',
  'SELECT arrayMap(x -> (SELECT count() FROM @), [1])', 'EXPLAIN QUERY TREE SELECT * FROM @', 'DESCRIBE (SELECT * FROM @)', 'SELECT 1 EXCEPT SELECT count() FROM @'
]
const ONLY_TABLES = ['SHOW CREATE TABLE @', 'EXISTS TABLE @', 'SELECT 1 IN @', 'SELECT * FROM @ FINAL', 'SELECT * FROM loop(@)', 'SELECT @.name FROM @']
const SETTINGS = [
  'SELECT 1 SETTINGS @ = #', 'SELECT * FROM (SELECT 1 SETTINGS @ = #)', 'WITH x AS (SELECT 1 SETTINGS @ = #) SELECT * FROM x', 'SELECT (SELECT 1 SETTINGS max_threads = 1, @ = #)',
  'SELECT 1 UNION ALL SELECT 2 SETTINGS @ = #', 'EXPLAIN SELECT 1 SETTINGS @ = #', 'SELECT 1 FORMAT TSV SETTINGS @ = #', 'SELECT 1 IN (SELECT 1 SETTINGS @ = #)', 'SET @ = #'
]
const OUTFILES = ["SELECT 1 INTO OUTFILE '@'", "SELECT 1 INTO/**/OUTFILE '@' TRUNCATE", "EXPLAIN SELECT 1 INTO OUTFILE '@'", "(SELECT 1) INTO OUTFILE '@' APPEND FORMAT TSV", "DESCRIBE (SELECT 1) INTO OUTFILE '@'"]
/** Formats that read or write a schema, or ask its server, and where one is named: `@` an expression, `#` a text. */
const FORMATS = ['Protobuf', 'ProtobufSingle', 'ProtobufList', 'Template', 'AvroConfluent', 'CapnProto']
const FORMAT_CALLS = [
  'SELECT formatRow(@, number AS a) FROM numbers(1)', 'SELECT formatRowNoNewline(@, number) FROM numbers(2)', 'SELECT groupFormat(@)(number) FROM numbers(2)', 'SELECT groupFormatIf(@)(number, 1) FROM numbers(2)',
  'SELECT groupFormatOrNullIf(@)(number, 1) FROM numbers(2)', 'SELECT hex(groupFormatState(@)(number)) FROM numbers(2)', 'SELECT arrayMap(x -> formatRow(@, x), [1])', 'SELECT * APPLY groupFormat(@) FROM numbers(2)',
  'WITH @ AS CSV SELECT formatRow(CSV, number) FROM numbers(1)', 'WITH @ AS x SELECT groupFormatArray(x)([number]) FROM numbers(1)', 'SELECT @ AS TSV, formatRow(TSV, number) FROM numbers(1)', "SELECT arrayReduce('groupFormat(\\'#\\')', [1])",
  "SELECT arrayReduce('groupFormatIf(\\'#\\')', [1], [1])", "SELECT initializeAggregation('groupFormat(\\'#\\')', 1)", "SELECT arrayReduceInRanges('groupFormat(\\'#\\')', [(1, 2)], [1, 2])", 'SELECT 1 FORMAT #',
  "SELECT finalizeAggregation(CAST(unhex('010100000000000000'), 'AggregateFunction(groupFormat(\\'#\\'), UInt8)'))"
]
const TAILS = ['', '', '', ' FORMAT TSV', ' FORMAT JSON', ' FORMAT Values', ' FORMAT RawBLOB', ' SETTINGS max_threads = 1', ';', ' -- end', ' /* end */', '\n;\n', ' LIMIT 3']

/** A generator of attacks; the same seed gives the same. */
export function createAttacks (targets: Targets, seed: number): () => Attack {
  const random = mulberry32(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  const chance = (share: number): boolean => random() < share

  function nameArgument (name: string): string {
    const url = `'http://${targets.server}/c.csv'`
    const file = `'${targets.file}.${pick(['csv', 'tsv', 'txt'])}'`
    if (/^file$/i.test(name)) return pick([file, file, '\'/proc/self/environ\''])
    return pick([file, url, '', `${file}, 'CSV', 'a String'`, `${url}, 'CSV', 'a String'`, `'${targets.server}', 'system', 'one'`, `'${targets.server}', 'a', 'b', 'c', 'd'`, '1', "'x'"])
  }

  function tableArgument (name: string): string {
    const url = `'http://${targets.server}/c.csv'`
    if (/file/i.test(name)) return pick([`'${targets.file}.csv'`, `'${targets.file}.txt', LineAsString`, '\'/proc/self/environ\', LineAsString'])
    if (/^(url|s3|gcs|oss|cosn)$/i.test(name)) return pick([url, `${url}, 'CSV', 'a String'`, `${url}, LineAsString`])
    if (/remote|cluster/i.test(name)) return pick([`'${targets.server}', system.one`, "'default', system.processes"])
    return pick([nameArgument(name), "'system', 'processes'", 'system.processes', `'SELECT file(\\'${targets.file}.txt\\')'`])
  }

  /** One name in one of its spellings; `params` may take the name away from the text. */
  function spell (name: string, params: Record<string, string>): string {
    const plain = /^\w+$/.test(name)
    const quote = pick(['`', '"'])
    const escape = (share: number, of: (char: string) => string): string => [...name].map((char) => chance(share) ? of(char) : char).join('')
    const hex = (char: string): string => `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`
    return pick([
      () => plain ? name : `\`${name}\``,
      () => plain ? escape(0.5, (char) => chance(0.5) ? char.toUpperCase() : char.toLowerCase()) : `"${name}"`,
      () => `${quote}${name}${quote}`,
      () => `“${name}”`,
      () => `${quote}${escape(chance(0.3) ? 1 : 0.3, hex)}${quote}`,
      () => `${quote}${escape(0.3, (char) => `\\${char.charCodeAt(0).toString(8).padStart(3, '0')}`)}${quote}`,
      () => `${quote}${escape(0.2, (char) => `\\u00${char.charCodeAt(0).toString(16)}`)}${quote}`,
      () => `${quote}${escape(0.3, (char) => `\\${char}`)}${quote}`,
      () => `${plain ? name : `\`${name}\``}${pick(['/**/', ' ', '\n', '\u00a0', '/* ( */', '--x\n', '\u200b', '\ufeff'])}`,
      () => {
        const key = `p${Object.keys(params).length}`
        params[`param_${key}`] = chance(0.7) ? name : escape(0.3, hex)
        return `{${key}:${pick(['Identifier', ' Identifier ', 'Identifier/**/'])}}`
      }
    ])()
  }

  function decorate (query: string): string {
    let text = query + pick(TAILS)
    if (chance(0.1)) text = text.replaceAll(' ', () => pick([' ', '/**/', '\n', '\t', ' /* x */ ', '--x\n']))
    if (chance(0.1)) text = text.replaceAll(/\b(SELECT|FROM|WITH|DESCRIBE|EXPLAIN)\b/g, (word) => pick([word, word.toLowerCase()]))
    if (chance(0.05)) text = pick([`SELECT 1;${text}`, `${text};SELECT 1`, `EXPLAIN ${text}`, `EXPLAIN SYNTAX ${text}`, `SELECT * FROM (${text})`, `(${text})`])
    return text
  }

  const kinds: Array<(params: Record<string, string>) => { name: string, query: string }> = [
    (params) => {
      const name = pick(chance(0.3) ? ['file'] : targets.functions)
      return { name, query: fill(pick(CALLS), () => spell(name, params), () => nameArgument(name)) }
    },
    (params) => {
      const name = pick(chance(0.3) ? ['file', 'url', 's3', 'remote'] : targets.tableFunctions)
      return { name, query: fill(pick(TABLES), () => `${spell(name, params)}(${tableArgument(name)})`, () => '') }
    },
    (params) => {
      const name = pick(targets.tables)
      const point = name.indexOf('.')
      const dot = (): string => pick(['.', '.', ' . ', '/**/.'])
      const parts = [name.slice(0, point), name.slice(point + 1)]
      const whole = (): string => parts.map((part) => spell(part, params)).join(dot())
      return { name, query: fill(pick(chance(0.8) ? TABLES : ONLY_TABLES), whole, () => '') }
    },
    (params) => {
      const name = pick(targets.settings)
      const value = (): string => pick(['0', '1', "'x'", `'${targets.file}.txt'`, '100000000000'])
      return { name, query: fill(pick(SETTINGS), () => chance(0.8) ? name : spell(name, params), value) }
    },
    () => {
      const name = pick(FORMATS)
      const spelled = pick([`'${name}'`, `('${name}')`, `concat('${name.slice(0, 3)}', '${name.slice(3)}')`, `'${name}'::String`, `$$${name}$$`, `if(1, '${name}', 'CSV')`, `'${name.toLowerCase()}'`])
      return { name, query: pick(FORMAT_CALLS).replaceAll('@', () => spelled).replaceAll('#', () => name) }
    },
    () => ({ name: 'OUTFILE', query: fill(pick(OUTFILES), () => `${targets.file}.stolen`, () => '') })
  ]
  const shares = [0.33, 0.65, 0.83, 0.9, 0.98, 1]

  return () => {
    const at = random()
    const params: Record<string, string> = {}
    const { name, query } = kinds[shares.findIndex((share) => at < share)]!(params)
    if (chance(0.3)) params.database = pick(['shop', 'default', 'system'])
    if (chance(0.05)) params.default_format = pick(['JSON', 'Template', 'Protobuf', 'CSV'])
    return { name, query: decorate(query), params }
  }
}

function fill (template: string, name: () => string, argument: () => string): string {
  return template.replaceAll('@', () => name()).replaceAll('#', () => argument())
}

/** Small and good enough: any seed gives a sequence that is the same everywhere. */
function mulberry32 (seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let value = Math.imul(state ^ (state >>> 15), state | 1)
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61)
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296
  }
}
