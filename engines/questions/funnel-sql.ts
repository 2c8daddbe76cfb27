import { quoteString } from 'chdb-server/sql-lexer'
import type { ResolvedRange } from './calendar.ts'
import { type Breakdown, type EventChoice, type Funnel, QUESTION_LIMITS } from './question.ts'
import { choiceSql, cohortTagsSql, knownSql, mergesSql, PERSON, rowsSql, spanSql, TAGS, tagOf } from './question-sql.ts'

/** Beginnings of the ranges in which times are counted, in seconds, as far as the window goes. */
const TIMES = [0, 10, 60, 300, 900, 3600, 14_400, 43_200, 86_400, 259_200, 604_800, 1_209_600, 2_592_000, 7_776_000]

/** The same for one funnel, in milliseconds; the last range ends with the window, included. */
export function timesOf ({ windowSeconds }: Funnel): number[] {
  return TIMES.filter((seconds) => seconds < windowSeconds).map((seconds) => seconds * 1000)
}

/** Of whole numbers, this level of `quantilesExactLow` is the least that nine tenths of all do not exceed. */
const P90 = 0.9 - 1e-9

/** One row a value of the breakdown, and one with an empty tag for everybody: by step, people and their times. */
export function compileFunnel (funnel: Funnel, projectId: number, range: ResolvedRange): string {
  const steps = funnel.steps.map((_, index) => index + 1)
  const limit = funnel.breakdown?.limit ?? 0
  const times = timesOf(funnel)
  const timesSql = (step: number): string =>
    `countIfResample(0, ${times.length}, 1)(at_${step} > 0, toUInt8(arrayCount(time -> time <= took_${step}, [${times.join(', ')}]) - 1))`
  return `${walkSql(funnel, projectId, range)}
SELECT shown AS tag,
    ${steps.map((step) => `sum(people_${step}) AS people_${step}, if(people_${step} = 0, NULL, (quantilesExactLowMerge(0.5, ${P90})(quantiles_${step}) AS took_${step})[1]) AS median_${step},
    if(people_${step} = 0, NULL, took_${step}[2]) AS p90_${step}, arrayStringConcat(sumForEach(times_${step}), ',') AS histogram_${step}`).join(',\n    ')}
FROM
(
    SELECT *, if(tag = '${TAGS.all}' OR row_number() OVER (ORDER BY tag IN ('${TAGS.all}', '${TAGS.rest}'), people_1 DESC, tag) <= ${limit}, tag, '${TAGS.rest}') AS shown
    FROM
    (
        SELECT tag, ${steps.map((step) => `countIf(at_${step} > 0) AS people_${step}, quantilesExactLowStateIf(0.5, ${P90})(took_${step}, at_${step} > 0) AS quantiles_${step},
            ${timesSql(step)} AS times_${step}`).join(',\n            ')}
        FROM walks ARRAY JOIN arrayPushFront(${partsSql(funnel.breakdown)}, '${TAGS.all}') AS tag GROUP BY tag
    )
)
GROUP BY shown
ORDER BY tag != '${TAGS.all}', tag = '${TAGS.rest}', people_1 DESC, tag`
}

/** In which parts a person of `walks` counts: once in the rest, whichever values of theirs are there. */
function partsSql (breakdown: Funnel['breakdown']): string {
  if (breakdown === null) return '[]'
  return breakdown.attribution === 'first' ? 'tags' : `arrayDistinct(arrayMap(of -> if(has(${topSql(breakdown)}, of), of, '${TAGS.rest}'), tags))`
}

function topSql ({ limit }: Breakdown): string {
  return `(SELECT groupArray(of) FROM (SELECT of FROM walks ARRAY JOIN tags AS of GROUP BY of ORDER BY count() DESC, of LIMIT ${limit}))`
}

/**
 * People of a funnel: those who reached a step, from 1, or got lost before it, from 2, in a part of the breakdown. With
 * `fromMs`, those who reached it in the range of times that begins there.
 */
export interface FunnelCell { step: number, outcome: 'reached' | 'lost', tag: string, fromMs: number | null }

/** The persons behind a number; those who entered last come first. */
export function compileFunnelPersons (
  funnel: Funnel, { step, outcome, tag, fromMs }: FunnelCell,
  { projectId, range }: { projectId: number, range: ResolvedRange }
): string {
  const breakdown = tag === TAGS.all ? null : funnel.breakdown
  const isInPart = breakdown === null
    ? ''
    : tag === TAGS.rest ? ` AND arrayExists(of -> NOT has(${topSql(breakdown)}, of), tags)` : ` AND has(tags, ${quoteString(tag)})`
  const toMs = timesOf(funnel).find((time) => fromMs !== null && time > fromMs) ?? Infinity
  const isInTime = fromMs === null ? '' : ` AND took_${step} >= ${fromMs}${toMs === Infinity ? '' : ` AND took_${step} < ${toMs}`}`
  return `${walkSql({ ...funnel, breakdown }, projectId, range)}
SELECT person_id AS person, fromUnixTimestamp64Milli(toInt64(entered), 'UTC') AS at, NULL AS value
FROM walks WHERE ${outcome === 'reached' ? `at_${step} > 0` : `at_${step - 1} > 0 AND at_${step} = 0`}${isInTime}${isInPart}`
}

/**
 * A row a person: where in the list of their events each step was first reached (0: never), and after how long.
 *
 * Lists are worked on as a whole: `arrayFill` carries the latest start to all later events, so that no loop over the
 * events is needed.
 */
function walkSql (funnel: Funnel, projectId: number, range: ResolvedRange): string {
  const { steps, exclude, breakdown, order } = funnel
  const bit = (choice: EventChoice, index: number): string => `if(${choiceSql(choice, projectId, range)}, ${2 ** index}, 0)`
  const mask = [...steps.map(bit), ...exclude.map((choice, index) => bit(choice, EXCLUDED + index))].join(' + ')
  const isOfCohorts = breakdown?.type === 'cohort'
  const tag = breakdown === null || isOfCohorts ? `'${TAGS.all}'` : tagOf(breakdown)
  const ofAny = `groupUniqArrayIf(of, bitAnd(steps, ${2 ** EXCLUDED - 1}) != 0)`
  const tags = isOfCohorts ? cohortTagsSql(breakdown, projectId, { ...range, person: 'person' }) : breakdown?.attribution === 'any' ? ofAny : '[first.2]'
  const enters = order === 'in_order' ? 'bitTest(steps, 0)' : '1'
  return `WITH happened AS
(
    SELECT ${PERSON} AS person, toUInt64(toUnixTimestamp64Milli(timestamp)) AS ms, toUInt64(${mask}) AS steps, ${tag} AS of
    FROM events AS event ${mergesSql(projectId)} ${knownSql(breakdown, projectId)}
    WHERE ${rowsSql({ projectId, includeBots: funnel.includeBots, range }, [...steps, ...exclude])} AND ${spanSql(range)} AND steps != 0
),
walks AS
(
    SELECT person AS person_id, minIf((ms, of), ${enters}) AS first, first.1 AS entered, ${tags} AS tags,
        -- One number an event, which sorts by time, then by the first step that it is: ms * 2^19 + first step * 2^15 + steps.
        arraySort(groupArray(ms * 524288 + bitCount(bitXor(steps, steps - 1)) * 32768 + steps)) AS events,
        arrayMap(number -> intDiv(number, 524288), events) AS times,
        arrayMap(number -> bitAnd(number, 32767), events) AS masks,
        ${(order === 'in_order' ? walkInOrder : walkInAnyOrder)(funnel)}
    FROM happened GROUP BY person
    HAVING at_1 > 0
)`
}

/** The first bit of excluded events in the number of an event, behind those of ten steps. */
const EXCLUDED = QUESTION_LIMITS.steps

/**
 * `start_k`: for each event that may be step k, the latest first step that leads to it; 0 for all others.
 * Before the next step, excluded events are marked with 1, which is no time, so that no start is carried past them.
 */
function walkInOrder ({ steps, exclude, windowSeconds }: Funnel): string {
  const parts = steps.map((_, index) => {
    const step = index + 1
    const ends = exclude.reduce((mask, { from, to }, at) =>
      from < step && step <= to ? mask + 2 ** (EXCLUDED + at) : mask, 0)
    const started = ends === 0 ? `start_${index}` : `arrayMap((mask, start) -> if(start = 0 AND bitAnd(mask, ${ends}) != 0, 1, start), masks, start_${index})`
    const start = index === 0
      ? 'arrayMap((mask, time) -> if(bitTest(mask, 0), time, 0), masks, times)'
      : `arrayMap((mask, time, start) -> if(bitTest(mask, ${index}) AND start > 1 AND time - start <= ${windowSeconds * 1000}, start, 0), masks, times,
            arrayPushFront(arrayPopBack(arrayFill(start -> start != 0, ${started})), 0))`
    return `${start} AS start_${step}, arrayFirstIndex(start -> start != 0, start_${step}) AS at_${step}, times[at_${step}] - start_${step}[at_${step}] AS took_${step}`
  })
  return parts.join(',\n        ')
}

/** `latest_k`: when step k was last done up to each event; `recent`: those within the window, the newest first. */
function walkInAnyOrder ({ steps, windowSeconds }: Funnel): string {
  const latest = steps.map((_, index) => `arrayFill(time -> time != 0, arrayMap((mask, time) -> if(bitTest(mask, ${index}), time, 0), masks, times)) AS latest_${index + 1}`)
  const names = steps.map((_, index) => `latest_${index + 1}`)
  const recent = `arrayMap((time, ${names.map((name) => `of_${name}`).join(', ')}) -> arrayReverseSort(arrayFilter(done -> done != 0 AND time - done <= ${windowSeconds * 1000}, [${names.map((name) => `of_${name}`).join(', ')}])), times, ${names.join(', ')}) AS recent`
  const reached = steps.map((_, index) => {
    const step = index + 1
    return `arrayFirstIndex(done -> length(done) >= ${step}, recent) AS at_${step}, times[at_${step}] - recent[at_${step}][${step}] AS took_${step}`
  })
  return [...latest, recent, ...reached].join(',\n        ')
}
