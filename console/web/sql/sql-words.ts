/** Words of ClickHouse's SQL, for colours and completion. */

export const KEYWORDS: readonly string[] = [
  'ALL', 'AND', 'ANTI', 'ANY', 'ARRAY', 'AS', 'ASC', 'ASOF', 'BETWEEN', 'BY', 'CASE', 'CROSS', 'CUBE', 'DAY', 'DESC', 'DESCRIBE', 'DISTINCT', 'ELSE',
  'END', 'EXCEPT', 'EXISTS', 'EXPLAIN', 'FALSE', 'FINAL', 'FROM', 'FULL', 'GLOBAL', 'GROUP', 'HAVING', 'HOUR', 'ILIKE', 'IN', 'INNER',
  'INTERSECT', 'INTERVAL', 'IS', 'JOIN', 'LEFT', 'LIKE', 'LIMIT', 'MINUTE', 'MONTH', 'NOT', 'NULL', 'NULLS', 'OFFSET', 'ON', 'OR', 'ORDER', 'OUTER', 'OVER',
  'PARTITION', 'PREWHERE', 'QUALIFY', 'RIGHT', 'ROLLUP', 'ROWS', 'SAMPLE', 'SECOND', 'SELECT', 'SEMI', 'SETTINGS', 'SHOW', 'TABLES', 'THEN', 'TIES', 'TO', 'TOTALS', 'TRUE',
  'UNION', 'USING', 'WEEK', 'WHEN', 'WHERE', 'WINDOW', 'WITH', 'YEAR', 'FILL', 'STEP'
]

/** Functions that questions about events need most, with their arguments. */
export const FUNCTIONS: readonly [name: string, detail: string][] = [
  ['count', '() or (condition column)'], ['countIf', '(condition)'], ['uniq', '(value): how many different, about'],
  ['uniqExact', '(value): how many different, exactly'], ['uniqIf', '(value, condition)'], ['sum', '(value)'], ['sumIf', '(value, condition)'],
  ['avg', '(value)'], ['min', '(value)'], ['max', '(value)'], ['median', '(value)'], ['quantile', '(level)(value)'], ['quantiles', '(levels)(value)'],
  ['any', '(value)'], ['argMax', '(value, of the greatest)'], ['argMin', '(value, of the least)'], ['groupArray', '(value)'],
  ['groupUniqArray', '(value)'], ['topK', '(n)(value)'], ['windowFunnel', '(seconds)(time, condition, ...)'], ['retention', '(condition, ...)'],
  ['sequenceMatch', "('(?1)(?2)')(time, condition, ...)"],
  ['JSONExtractString', "(properties, 'name')"], ['JSONExtractInt', "(properties, 'name')"], ['JSONExtractFloat', "(properties, 'name')"],
  ['JSONExtractBool', "(properties, 'name')"], ['JSONExtractRaw', "(properties, 'name')"], ['JSONHas', "(properties, 'name')"],
  ['JSONExtractKeys', '(properties)'], ['JSONExtractArrayRaw', "(properties, 'name')"],
  ['toStartOfHour', '(time)'], ['toStartOfDay', '(time, timezone)'], ['toStartOfWeek', '(time, mode, timezone)'], ['toStartOfMonth', '(time, timezone)'],
  ['toStartOfInterval', '(time, INTERVAL 1 hour)'], ['toDate', '(time, timezone)'], ['toDateTime', '(text)'], ['now', '()'], ['today', '()'],
  ['dateDiff', "('unit', from, to)"], ['formatDateTime', "(time, '%Y-%m')"], ['toHour', '(time)'], ['toDayOfWeek', '(time)'],
  ['if', '(condition, then, else)'], ['multiIf', '(condition, then, ..., else)'], ['coalesce', '(value, ...)'], ['ifNull', '(value, else)'],
  ['nullIf', '(value, value)'], ['empty', '(text)'], ['notEmpty', '(text)'], ['length', '(text)'], ['lower', '(text)'], ['upper', '(text)'],
  ['concat', '(text, ...)'], ['substring', '(text, from, length)'], ['replaceOne', '(text, what, with)'], ['splitByChar', "(',', text)"],
  ['match', '(text, regular expression)'], ['extract', '(text, regular expression)'], ['domain', '(url)'], ['path', '(url)'],
  ['toString', '(value)'], ['toInt64', '(value)'], ['toFloat64', '(value)'], ['toInt64OrZero', '(text)'], ['toFloat64OrZero', '(text)'],
  ['round', '(value, digits)'], ['floor', '(value)'], ['arrayJoin', '(array)'], ['arrayMap', '(x -> ..., array)'], ['arrayFilter', '(x -> ..., array)'],
  ['has', '(array, value)'], ['lagInFrame', '(value)'], ['row_number', '()'], ['cityHash64', '(value)']
]
