import { quoteString } from 'chdb-server/sql-lexer'
import type { ResolvedRange } from './calendar.ts'
import { type EventChoice, type Paths, QUESTION_LIMITS } from './question.ts'
import { choiceSql, hasPersonConditions, mergesSql, PERSON, rowsSql, spanSql } from './question-sql.ts'

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
  // It sorts by time, then by name: ms * 2^7 + number of the name * 2 + whether a path may lead from or to it.
  const number = `toUInt64(toUnixTimestamp64Milli(timestamp)) * 128 + transform(event, names, range(1, length(names) + 1), 0) * 2 + ${choiceSql(anchor, projectId, range)}`
  return `WITH ${namesSql(paths, projectId, range)} AS names,
walks AS
(
    SELECT person, intDiv(session[first], 128) AS began,
        arraySlice(arrayCompact(arrayMap(number -> bitAnd(intDiv(number, 2), 63), arraySlice(session, first))), 1, ${steps + 1}) AS path
    FROM
    (
        SELECT ${PERSON} AS person, ${sort}(groupArrayArray(numbers)) AS happened
        FROM (${ofIdsSql(paths, `groupArray(${number}) AS numbers`, choices, { projectId, range })}) AS event ${mergesSql(projectId)}
        GROUP BY person HAVING max(is_anchor)
    )
    ARRAY JOIN arraySplit((number, before) -> intDiv(greatest(number, before), 128) - intDiv(least(number, before), 128) > ${gapSeconds * 1000}, happened, arrayPushFront(arrayPopBack(happened), happened[1])) AS session
    WHERE (arrayFirstIndex(number -> bitTest(number, 0), session) AS first) > 0
)`
}

/** A row a person before merges: there are far fewer of them than of events. */
function ofIdsSql (
  { anchor, includeBots }: Paths, column: string, choices: readonly EventChoice[],
  { projectId, range }: { projectId: number, range: ResolvedRange }
): string {
  return `SELECT event.person_id AS person_id, max(${choiceSql(anchor, projectId, range)}) AS is_anchor, ${column}
            FROM events AS event ${hasPersonConditions([anchor]) ? mergesSql(projectId) : ''}
            WHERE ${rowsSql({ projectId, includeBots, range }, choices)} AND ${spanSql(range)} GROUP BY event.person_id`
}

const ANY: EventChoice = { event: null, where: [] }

/** The names that stand for themselves, at most 51, in their order. */
function namesSql (paths: Paths, projectId: number, range: ResolvedRange): string {
  const { anchor, events, nodes } = paths
  const always = `[${[...anchor.event === null ? [] : [anchor.event], ...events ?? []].map(quoteString).join(', ')}]`
  const sorted = (names: string): string => `arraySort(arrayDistinct(arrayConcat(CAST(${always}, 'Array(String)'), ${names})))`
  if (events !== null) return sorted('[]')
  return `(SELECT ${sorted('groupArray(name)')} FROM
(
    SELECT toString(arrayJoin(names)) AS name FROM
    (
        SELECT groupUniqArrayArray(own) AS names
        FROM (${ofIdsSql(paths, 'groupUniqArray(event) AS own', [ANY], { projectId, range })}) AS event ${mergesSql(projectId)}
        GROUP BY ${PERSON} HAVING max(is_anchor)
    )
    GROUP BY name ORDER BY count() DESC, name LIMIT ${nodes}
))`
}
