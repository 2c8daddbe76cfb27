import { quoteString } from 'chdb-server/sql-lexer'
import type { ResolvedRange } from './calendar.ts'
import { type EventChoice, type Paths, QUESTION_LIMITS } from './question.ts'
import { choiceSql, mergesSql, PERSON, rowsSql, spanSql } from './question-sql.ts'

/** One row an edge of paths, and one of step 0 for all of them: people and paths; an empty name stands for others. */
export function compilePaths (paths: Paths, projectId: number, range: ResolvedRange): string {
  const [source, target] = endsOf(paths, 'step').map((name) => `if(step = 0, '', ${name})`)
  return `${walksSql(paths, projectId, range)}
SELECT step, ${source} AS source, ${target} AS target, uniqExact(person) AS people, count() AS paths
FROM walks ARRAY JOIN range(0, length(path)) AS step
GROUP BY step, source, target HAVING step = 0 OR people >= ${paths.minPeople}
ORDER BY step, people DESC, paths DESC, source, target LIMIT ${QUESTION_LIMITS.edges} BY step`
}

/** People of paths: all of them (null), or those who went over an edge, whose names are null for all others. */
export interface PathsCell { edge: { step: number, from: string | null, to: string | null } | null }

/** The persons behind a number, with when the event of their latest such path happened from or to which it leads. */
export function compilePathsPersons (
  paths: Paths, { edge }: PathsCell, { projectId, range }: { projectId: number, range: ResolvedRange }
): string {
  const [source, target] = endsOf(paths, String(edge?.step))
  const isOver = edge === null
    ? ''
    : `WHERE length(path) > ${edge.step} AND ${source} = ${quoteString(edge.from ?? '')} AND ${target} = ${quoteString(edge.to ?? '')} `
  return `${walksSql(paths, projectId, range)}
SELECT person, fromUnixTimestamp64Milli(toInt64(max(began)), 'UTC') AS at, NULL AS value
FROM walks ${isOver}GROUP BY person`
}

/** Both names of an edge, the earlier one first. */
function endsOf ({ direction }: Paths, step: string): string[] {
  const names = [`names[path[${step}]]`, `names[path[${step} + 1]]`]
  return direction === 'from' ? names : names.reverse()
}

/** A row a path: the numbers of its names from the anchor on, 0 for all others, and when that happened. */
function walksSql (paths: Paths, projectId: number, range: ResolvedRange): string {
  const { anchor, direction, steps, events, gapSeconds } = paths
  const named = anchor.event === null ? [] : [anchor]
  const choices = events === null ? [ANY] : [...named, ...events.map((event) => ({ ...ANY, event }))]
  const sort = direction === 'from' ? 'arraySort' : 'arrayReverseSort'
  return `WITH ${namesSql(paths, projectId, range)} AS names,
happened AS
(
    SELECT ${PERSON} AS person,
        -- It sorts by time, then by name: ms * 2^7 + number of the name * 2 + whether a path may lead from or to it.
        toUInt64(toUnixTimestamp64Milli(timestamp)) * 128 + transform(toString(event), names, range(1, length(names) + 1), 0) * 2 + ${choiceSql(anchor, projectId)} AS number
    FROM events AS event ${mergesSql(projectId)}
    WHERE ${rowsSql({ projectId, includeBots: paths.includeBots }, choices)} AND ${spanSql(range)}
),
walks AS
(
    SELECT person, intDiv(session[first], 128) AS began,
        arraySlice(arrayCompact(arrayMap(number -> bitAnd(intDiv(number, 2), 63), arraySlice(session, first))), 1, ${steps + 1}) AS path
    FROM (SELECT person, ${sort}(groupArray(number)) AS events FROM happened GROUP BY person HAVING max(bitTest(number, 0)) = 1)
    ARRAY JOIN arraySplit((number, before) -> intDiv(greatest(number, before), 128) - intDiv(least(number, before), 128) > ${gapSeconds * 1000}, events, arrayPushFront(arrayPopBack(events), events[1])) AS session
    WHERE (arrayFirstIndex(number -> bitTest(number, 0), session) AS first) > 0
)`
}

const ANY: EventChoice = { event: null, where: [] }

/** The names that stand for themselves, at most 51, in their order. */
function namesSql ({ anchor, events, nodes, includeBots }: Paths, projectId: number, range: ResolvedRange): string {
  const always = `[${[...anchor.event === null ? [] : [anchor.event], ...events ?? []].map(quoteString).join(', ')}]`
  const sorted = (names: string): string => `arraySort(arrayDistinct(arrayConcat(CAST(${always}, 'Array(String)'), ${names})))`
  if (events !== null) return sorted('[]')
  const from = `FROM events AS event ${mergesSql(projectId)}`
  const among = (choice: EventChoice): string => `${rowsSql({ projectId, includeBots }, [choice])} AND ${spanSql(range)} AND ${choiceSql(choice, projectId)}`
  return `(SELECT ${sorted('groupArray(name)')} FROM
(
    SELECT toString(event) AS name ${from}
    WHERE ${among(ANY)} AND ${PERSON} IN (SELECT ${PERSON} ${from} WHERE ${among(anchor)})
    GROUP BY name ORDER BY uniqExact(${PERSON}) DESC, name LIMIT ${nodes}
))`
}
