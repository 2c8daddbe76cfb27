/** Expressions that cost far more than they look, to outlive an analyst's limit of time: some 300, made of parts. */

/** Arrays, by how they come to be. */
const ARRAYS = [
  'range(500000)', 'range(100000 + number)', 'range(toUInt32(toString(100000 * 3)))', 'arrayWithConstant(300000, number)', 'arrayResize([number], 400000)',
  'arrayMap(x -> cityHash64(x), range(100000))', 'arrayFlatten(arrayMap(x -> range(1000), range(1000)))', "splitByChar(',', repeat('ab,', 300000))",
  '(SELECT groupArray(cityHash64(number)) FROM numbers(1000000))', "extractAll(repeat('a1', 8000), '\\\\d')", 'arrayConcat(range(100000), range(100000), range(100000), range(100000))',
  'arrayPushBack(arrayWithConstant(100000, toString(number)), toString(number))'
]

/** What is done with one, `@`. */
const OF_ARRAY = [
  'arraySort(x -> -cityHash64(x, number), @)', 'arrayReverseSort(x -> sipHash64(x, number), @)', 'arrayMap(x -> hex(SHA512(concat(toString(x), toString(number)))), @)', 'arrayFilter(x -> lgamma(toFloat64(length(toString(x)) + number)) > 0, @)',
  'arrayDistinct(arrayMap(x -> concat(toString(x), toString(number)), @))', 'arrayEnumerateUniq(materialize(@), materialize(@))', "arrayReduce('groupUniqArray', materialize(@))", "arrayStringConcat(arrayMap(x -> concat(toString(x), toString(number)), @), ',')",
  'arrayCount(x -> has(range(100), length(toString(x)) + number), @)', 'arrayIntersect(materialize(@), arrayMap(x -> x, @))', "arrayReduceInRanges('sum', arrayMap(i -> (i, 1000), range(100000)), arrayMap(x -> length(toString(x)), @))", 'arrayShuffle(@, number)'
]

/** Whole arrays in the result, which cost most when they are written. */
const WRITTEN = ['@', 'arraySort(x -> -x, @)', '[@, @, @]', 'map(number, @)', 'toJSONString(@)', 'toString(@)']

const TEXTS = [
  "concat(repeat('ab', 500000), toString(number))", 'randomPrintableASCII(1000000)', 'concat(toString((SELECT groupArray(number) FROM numbers(200000))), toString(number))',
  "concat(repeat('größe ', 100000), toString(number))", "concat(repeat('<a href=1>', 50000), toString(number))", "concat(repeat('a', 3000), toString(number))"
]

const OF_TEXT = [
  "ngramDistance(@, concat(@, 'x'))", 'ngramMinHash(@)', 'wordShingleSimHash(@)', 'sparseGrams(@)', 'base58Encode(substring(@, 1, 100000))', "replaceAll(@, 'a', 'aaaaaaaaaa')",
  "replaceRegexpAll(substring(@, 1, 16000), '(a|b)*?c|b', 'xx')", "match(@, '(a?b?){50}c')", "extractAllGroupsVertical(substring(@, 1, 16000), '((a|b)*)')", "like(@, '%a%b%a%b%a%b%c')",
  "hasSubsequence(@, concat(@, 'z'))", 'extractTextFromHTML(@)', 'normalizeUTF8NFKD(@)', 'length(sparseGramsUTF8(@))', 'stringJaccardIndex(@, @)', "convertCharset(@, 'utf-8', 'utf-16')",
  "JSONExtract(@, 'Array(UInt64)')", "countSubstringsCaseInsensitiveUTF8(@, 'größe größe')", 'tokens(@)', 'ngrams(@, 3)', "multiSearchAllPositions(@, ['b', 'c', 'd', 'zz'])", 'obfuscateQuery(@)', 'formatQueryOrNull(@)',
  'hex(SHA512(@))', 'soundex(@)', 'naturalSortKey(@)', "multiMatchAny(@, ['(a.*b){3}c', 'z[a-z]{5,20}y'])", "translate(@, 'ab', 'cd')", 'levenshteinDistance(substring(@, 1, 900), substring(@, 2, 900))', 'encodeXMLComponent(@)',
  "splitByRegexp('[ab]', substring(@, 1, 16000))", 'initcapUTF8(@)', "regexpPosition(@, 'b+c')", "hasToken(@, 'zz')", 'isValidUTF8(@)', 'reverseUTF8(@)', 'visibleWidth(@)', 'highlightQuery(@)'
]

const AGGREGATES = [
  'quantilesExact(0.1, 0.5, 0.9)(cityHash64(number))', 'histogram(5000)(cityHash64(number))', 'groupArraySorted(100000)(cityHash64(number))', 'topK(1000)(cityHash64(number))', 'uniqExact(cityHash64(number))',
  'groupUniqArray(toString(number))', 'mannWhitneyUTest(cityHash64(number), number % 2)', 'rankCorr(cityHash64(number), number)', 'largestTriangleThreeBuckets(1000)(number, cityHash64(number))',
  "sequenceMatch('(?1).*(?2).*(?1).*(?2).*(?3)')(toDateTime(number), number % 2 = 0, number % 2 = 1, number = 4000000000)", "sequenceCount('(?1)(?t>1).*(?2)(?t>1).*(?3)')(toDateTime(number), number % 3 = 0, number % 3 = 1, 0)",
  "windowFunnel(1000000, 'strict_increase')(toDateTime(number), number % 2, number % 3, number % 5, number % 7)", 'arraySort(x -> -x, groupArray(number))', 'arrayMap(x -> hex(SHA512(toString(x))), groupArray(number))',
  'groupArrayMovingSum(1000)(number)', 'groupArrayMovingAvg(number)', "groupConcat(',')(toString(number))", 'maxIntersections(number, number + cityHash64(number) % 1000000)', 'stochasticLinearRegression(0.1, 0.1, 5, \'SGD\')(number, number % 3, number % 5)',
  'quantileExactWeighted(0.5)(cityHash64(number), number % 5)', 'quantileGK(100000, 0.5)(cityHash64(number))', 'theilsU(number, cityHash64(number))', 'analysisOfVariance(number % 100, number % 7)', 'sumMap(map(number, 1))', 'groupBitmap(cityHash64(number))',
  'categoricalInformationValue(toUInt8(number % 2), toUInt8(number % 2))', 'exponentialMovingAverage(5)(number, number)', 'flameGraph([toUInt64(number), toUInt64(number * 7)])', 'groupArrayIntersect(range(number % 1000))', 'quantilesTDigest(0.1, 0.2, 0.9)(cityHash64(number))',
  'arrayDistinct(groupArrayArray([toString(number), toString(number + 1)]))', 'length(arrayReduce(\'quantilesExact(0.5)\', groupArray(cityHash64(number))))', 'estimateCompressionRatio(toString(number))', 'entropy(cityHash64(number))'
]

const WINDOWS = [
  'sum(cityHash64(number)) OVER (ORDER BY number ROWS BETWEEN 100000 PRECEDING AND 100000 FOLLOWING)', 'max(cityHash64(number)) OVER (ORDER BY number ROWS BETWEEN 50000 PRECEDING AND CURRENT ROW)',
  'groupArray(number) OVER (ORDER BY number ROWS BETWEEN 10000 PRECEDING AND CURRENT ROW)', 'uniqExact(number) OVER (ORDER BY number ROWS BETWEEN 20000 PRECEDING AND 20000 FOLLOWING)',
  'quantileExact(0.5)(number) OVER (ORDER BY number ROWS BETWEEN 20000 PRECEDING AND CURRENT ROW)', 'arraySort(x -> -x, groupArray(number) OVER (ORDER BY number ROWS BETWEEN 5000 PRECEDING AND CURRENT ROW))',
  'count() OVER (ORDER BY number % 2 RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)', 'groupArray(number) OVER (ORDER BY number)', 'median(number) OVER (ORDER BY number)', 'argMax(number, cityHash64(number)) OVER (ORDER BY number RANGE BETWEEN 300000 PRECEDING AND 300000 FOLLOWING)',
  'nth_value(number, 50000) OVER (ORDER BY number ROWS BETWEEN 100000 PRECEDING AND 100000 FOLLOWING)', 'groupConcat(toString(number)) OVER (ORDER BY number)', 'topK(10)(number) OVER (ORDER BY number ROWS BETWEEN 30000 PRECEDING AND CURRENT ROW)', 'exponentialTimeDecayedSum(10)(number, number) OVER (ORDER BY number)'
]

const STATES = [
  'SELECT length(finalizeAggregation(s)) FROM (SELECT groupArrayState(cityHash64(number)) AS s FROM numbers(20000000))', 'SELECT quantileExactMerge(s) FROM (SELECT quantileExactState(cityHash64(number)) AS s FROM numbers(50000000) GROUP BY number % 1000)',
  'SELECT uniqExactMerge(s) FROM (SELECT uniqExactState(number) AS s FROM numbers(20000000) GROUP BY number % 100)', "SELECT arrayMap(x -> finalizeAggregation(x), arrayMap(i -> initializeAggregation('uniqExactState', i), range(400000))) FROM numbers(1000)",
  'SELECT runningAccumulate(s) FROM (SELECT number AS k, uniqExactState(number) AS s FROM numbers(1000000) GROUP BY k ORDER BY k)', 'SELECT runningAccumulate(s) FROM (SELECT number AS k, groupArrayState(number) AS s FROM numbers(100000) GROUP BY k ORDER BY k)',
  'SELECT length(toString(s)) FROM (SELECT groupArrayState(number) AS s FROM numbers(30000000))', "SELECT arrayReduce('uniqExactMerge', groupArray(s)) FROM (SELECT uniqExactState(number) AS s FROM numbers(5000000) GROUP BY number % 50000)",
  'SELECT bitmapToArray(bitmapBuild(range(500000))) FROM numbers(100000)', 'SELECT bitmapCardinality(bitmapXor(groupBitmapState(number), groupBitmapState(number * 3))) FROM numbers(100000000)', 'SELECT sumMapMerge(s) FROM (SELECT sumMapState(map(number, 1)) AS s FROM numbers(10000000) GROUP BY number % 10)',
  'SELECT arrayMap(b -> bitmapCardinality(bitmapAnd(b, bitmapBuild(range(50000)))), arrayMap(i -> bitmapBuild(range(60000 + i * 100)), range(300))) FROM numbers(10000)', 'SELECT topKMerge(1000)(s) FROM (SELECT topKState(1000)(number) AS s FROM numbers(10000000) GROUP BY number % 10000)'
]

const OTHERS = [
  'SELECT arraySum(arrayMap(x -> arraySum(arrayMap(y -> arraySum(arrayMap(z -> x * y + z, range(200))), range(300))), range(300))) FROM numbers(100000)',
  `SELECT ${Array.from({ length: 60 }, (_, i) => `arraySum(arrayMap(x -> arraySum(arrayMap(y -> y * x + ${i}, range(3000))), range(3000)))`).join()}`,
  `SELECT ${Array.from({ length: 40 }, (_, i) => `arraySort(x -> -x, range(499${String(i).padStart(3, '0')}))[1]`).join()} FROM numbers(100)`,
  `WITH ${Array.from({ length: 16 }, (_, i) => `arrayConcat(${i === 0 ? 'range(100)' : `a${i - 1}, a${i - 1}`}) AS a${i}`).join()} SELECT arraySort(x -> -x, a15) FROM numbers(1000)`,
  `WITH ${Array.from({ length: 15 }, (_, i) => `concat(${i === 0 ? "repeat('abc', 1000)" : `s${i - 1}, s${i - 1}`}) AS s${i}`).join()} SELECT countSubstrings(s14, 'ca'), hex(MD5(s14)) FROM numbers(1000)`,
  'WITH RECURSIVE r AS (SELECT 1 AS n, range(1000) AS a UNION ALL SELECT n + 1, arrayConcat(a, range(1000)) FROM r WHERE n < 100000) SELECT max(n) FROM r', 'WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count() FROM r',
  'SELECT number FROM numbers(1) ORDER BY number WITH FILL FROM 0 TO 100000000000', 'SELECT number, x FROM (SELECT number, toString(number) AS x FROM numbers(2)) ORDER BY number WITH FILL FROM 0 TO 1000000000 INTERPOLATE (x AS concat(x, \'a\'))',
  'SELECT count() FROM numbers(1000000) AS a CROSS JOIN numbers(1000000) AS b WHERE cityHash64(a.number, b.number) = 1', 'SELECT count() FROM (SELECT 1 AS k, number FROM numbers(300000)) AS a JOIN (SELECT 1 AS k, number FROM numbers(300000)) AS b USING k WHERE a.number + b.number = 7',
  'SELECT length(groupArray(a.x)) FROM (SELECT range(1000) AS x, 1 AS k FROM numbers(1000)) AS a JOIN (SELECT 1 AS k FROM numbers(10000)) AS b USING k', 'SELECT count() FROM numbers(3000000) AS a ASOF JOIN numbers(3000000) AS b ON a.number % 3 = b.number % 3 AND a.number >= b.number',
  'SELECT number IN (SELECT cityHash64(number) FROM numbers(30000000)) FROM numbers(10)', 'SELECT (SELECT max(cityHash64(number, a.number)) FROM numbers(10000000)) FROM numbers(1000) AS a', 'SELECT DISTINCT range(number % 1000), cityHash64(number) FROM numbers(10000000)',
  'SELECT sum(toUInt256(number) * toUInt256(number) % toUInt256(1000000007)) FROM numbers(1000000000)', 'SELECT sum(isProbablePrime(toUInt256(pow(2, 200)) + number)) FROM numbers(10000000)', 'SELECT max(arrayMax(arrayMap(x -> isPrime(toUInt64(18446744073709551557 - x)), range(100000)))) FROM numbers(1000)',
  'SELECT sum(gcd(toInt256(cityHash64(number)), toInt256(cityHash64(number + 1)))) FROM numbers(1000000000)', 'SELECT sum(intDiv(toDecimal256(number + 1, 40), toDecimal256(3, 20))) FROM numbers(100000000)', 'SELECT toDecimalString(number / 3, 60) FROM numbers(100000000)',
  'SELECT max(h3ToChildren(h3ToParent(599686042433355775, 3), 10)) FROM numbers(1000)', 'SELECT length(h3HexRing(644325528491955313, 60000)) FROM numbers(10000)', 'SELECT length(h3Line(590080540275638271, 599686042433355775)) FROM numbers(10000000)', 'SELECT length(geohashesInBox(0., 0., 20., 20., 8)) FROM numbers(1000)',
  'SELECT sum(pointInPolygon((number % 100, number % 77), arrayMap(i -> (cos(i / 10000), sin(i / 10000)), range(50000)))) FROM numbers(1000000)', 'SELECT polygonConvexHullCartesian([[arrayMap(i -> (toFloat64(cityHash64(i) % 1000), toFloat64(cityHash64(i + 1) % 1000)), range(300000))]]) FROM numbers(1000)', 'SELECT sum(greatCircleDistance(number % 90, number % 180, 3, 4)) FROM numbers(10000000000)',
  'SELECT length(mapPopulateSeries(map(0, 1, 400000, number))) FROM numbers(100000)', "SELECT length(timeSlots(toDateTime('2026-01-01 00:00:00'), toUInt32(40000000), 10)) FROM numbers(100000)", 'SELECT mapSort((k, v) -> -v, mapFromArrays(range(300000), range(300000))) FROM numbers(1000)', 'SELECT length(mapApply((k, v) -> (k, SHA512(toString(v))), mapFromArrays(range(300000), range(300000)))) FROM numbers(1000)',
  'SELECT sum(length(JSONExtractKeysAndValuesRaw(toJSONString(mapFromArrays(arrayMap(x -> toString(x), range(100000)), range(100000)))))) FROM numbers(1000)', "SELECT sum(JSONLength(concat('[', arrayStringConcat(arrayMap(x -> toString(x), range(200000)), ','), ']'))) FROM numbers(10000)", "SELECT CAST(concat('{', arrayStringConcat(arrayMap(x -> concat('\"k', toString(x), '\":', toString(x)), range(1000)), ','), '}') AS JSON) FROM numbers(100000)",
  'SELECT arrayPartialSort(x -> -x, 1000, range(400000)) FROM numbers(10000)', 'SELECT arrayROCAUC(arrayMap(x -> x % 7, range(400000)), arrayMap(x -> x % 2, range(400000))) FROM numbers(10000)', 'SELECT arraySplit((x, y) -> y % 2, range(400000), range(400000)) FROM numbers(1000)', 'SELECT arrayShingles(range(50000), 20) FROM numbers(1000)', 'SELECT arrayTranspose(arrayMap(x -> range(500), range(500))) FROM numbers(10000)',
  'SELECT arrayTopK(1000, range(400000)) FROM numbers(10000)', 'SELECT arrayAutocorrelation(arrayMap(x -> toFloat64(x), range(9000))) FROM numbers(100000)', 'SELECT arrayUnion(range(300000), range(100000)) FROM numbers(10000)', 'SELECT arrayProduct(arrayMap(x -> sin(x), range(400000))) FROM numbers(100000)', 'SELECT randomHadamardTransform(arrayMap(x -> toFloat32(x), range(262144))) FROM numbers(10000)',
  'SELECT arrayCumSum(arrayMap(x -> toDecimal128(x, 3), range(300000))) FROM numbers(10000)', "SELECT arrayMap(x -> formatDateTime(toDateTime(x), '%W %M %Y %H:%i:%S'), range(300000)) FROM numbers(1000)", "SELECT arrayMap(x -> parseDateTimeBestEffort(concat('2026-01-01 00:', leftPad(toString(x % 60), 2, '0'))), range(200000)) FROM numbers(1000)", 'SELECT L2Distance(range(400000), range(400000)) + cosineDistance(range(400000), range(400000)) FROM numbers(100000)',
  'SELECT arrayMap(x -> encrypt(\'aes-256-gcm\', toString(x), repeat(\'k\', 32), repeat(\'i\', 12)), range(100000)) FROM numbers(1000)', 'SELECT arrayMap(x -> HMAC(\'sha512\', toString(x), \'k\'), range(100000)) FROM numbers(1000)', "SELECT arrayMap(x -> format('{}-{}', toString(x), hex(x)), range(400000)) FROM numbers(1000)", 'SELECT arrayMap(x -> generateUUIDv4(x), range(400000)) FROM numbers(1000)', "SELECT arrayMap(x -> cutToFirstSignificantSubdomain(concat('http://a.b.', toString(x), '.co.uk/')), range(300000)) FROM numbers(1000)",
  'SELECT sum(length(randomString(1000000))) FROM numbers(1000000)', 'SELECT sum(length(fuzzBits(randomString(1000000), 0.5))) FROM numbers(100000)', "SELECT length(format(JSONEachRow, 'a UInt8', repeat('{\"a\":1}', 10)))", "SELECT sum(length(printf('%01000000d', number))) FROM numbers(100000)", 'SELECT sum(length(space(1000000))) FROM numbers(10000000)', "SELECT sum(length(leftPad('a', 1000000, 'xyz'))) FROM numbers(1000000)", "SELECT sum(length(leftPadUTF8('a', 900000, 'größe'))) FROM numbers(100000)",
  'SELECT * FROM generateRandom(\'a Array(Array(Array(String)))\', 1, 1000, 100) LIMIT 1000', "SELECT sum(arraySum(a)) FROM generateRandom('a Array(UInt64)', 1, 10, 1000000) LIMIT 1000", 'SELECT count() FROM primes(1000000000)', 'SELECT max(number) FROM generateSeries(0, 18446744073709551614, 1)', `SELECT ${'('.repeat(900)}1${')'.repeat(900)}`, `SELECT ${'[['.repeat(100)}1${']]'.repeat(100)}`,
  `SELECT count() FROM numbers(1000000000) WHERE ${Array.from({ length: 2000 }, (_, i) => `cityHash64(number, ${i}) = ${i}`).join(' OR ')}`, `SELECT multiIf(${Array.from({ length: 5000 }, (_, i) => `number = ${i}, ${i}`).join()}, 0) FROM numbers(100000000)`, `SELECT ${Array.from({ length: 3000 }, (_, i) => `sin(number + ${i})`).join(' * ')} FROM numbers(10000000)`,
  `SELECT ${'arrayMap(x -> '.repeat(7)}1${', range(30))'.repeat(7)}`, `SELECT length(${'arrayMap(x -> '.repeat(3)}x${', range(200))'.repeat(3)}) FROM numbers(1000)`, 'SELECT arrayJoin(range(500000)) AS a, arrayJoin(range(500000)) AS b', 'SELECT sum(a) FROM numbers(1000) ARRAY JOIN range(500000) AS a', 'SELECT count() FROM (SELECT range(500000) AS r FROM numbers(1000)) ARRAY JOIN r AS a, arrayEnumerate(r) AS i WHERE a > i',
  'SELECT groupArray(r) FROM (SELECT range(100000) AS r FROM numbers(1000))', 'SELECT range(100000) AS r, count() FROM numbers(10000) GROUP BY r', 'SELECT range(100000) AS r FROM numbers(1000) ORDER BY r', 'SELECT uniqExact(range(100000)) FROM numbers(10000)', 'SELECT sumForEach(range(100000)) FROM numbers(100000)', 'SELECT quantileExactForEach(0.5)(range(1000)) FROM numbers(100000)', 'SELECT groupArrayResample(0, 100000, 1)(number, number) FROM numbers(1000)',
  "SELECT timeSeriesRateToGrid('2000-01-01 00:00:00'::DateTime, '2026-01-01 00:00:00'::DateTime, 10, 1000000)(toDateTime(number * 10), toFloat64(number)) FROM numbers(10000000)", 'SELECT seriesDecomposeSTL(arrayMap(x -> toFloat64(x % 7), range(90000)), 7) FROM numbers(1000)', 'SELECT seriesOutliersDetectTukey(arrayMap(x -> toFloat64(x % 7), range(90000))) FROM numbers(10000)', 'EXPLAIN SELECT arraySort(x -> -x, (SELECT groupArray(number) FROM numbers(30000000)))', 'DESCRIBE (SELECT arraySum(arrayMap(x -> arraySum(arrayMap(y -> y * x, range(3000))), range(3000))) AS a)',
  'SELECT arraySort(x -> -x, a) FROM (SELECT groupArray(cityHash64(number)) AS a FROM numbers(30000000))', 'SELECT arraySort((x, y) -> y, a, b) FROM (SELECT groupArray(number) AS a, groupArray(toString(cityHash64(number))) AS b FROM numbers(5000000))', 'SELECT arrayMap(x -> arrayCount(y -> y < x, a), a) FROM (SELECT groupArray(number) AS a FROM numbers(30000))', 'SELECT arrayFilter(x -> arrayExists(y -> y = x + 1000000, range(3000)), range(3000)) FROM numbers(1000)', 'SELECT arrayMap(x -> indexOf(range(100000), x), range(1000)) FROM numbers(1000)'
]

/** In an order of their own that never changes. */
export function listCostlyQueries (): string[] {
  const pairs = (outer: readonly string[], inner: readonly string[], every: number): string[] =>
    outer.flatMap((of, i) => inner.filter((_, k) => (i * 7 + k * 3) % every === 0).map((it) => of.replaceAll('@', () => it)))
  return [
    ...pairs(OF_ARRAY, ARRAYS, 2).map((expression) => `SELECT sum(cityHash64(${expression})) FROM numbers(10000)`),
    ...pairs(WRITTEN, ARRAYS, 3).map((expression) => `SELECT ${expression} FROM numbers(10000)`),
    ...pairs(OF_TEXT, TEXTS, 4).map((expression) => `SELECT sum(ignore(${expression})) FROM numbers(100000)`),
    ...AGGREGATES.map((aggregate) => `SELECT ${aggregate} FROM numbers(100000000)`),
    ...WINDOWS.map((window) => `SELECT max(cityHash64(w)) FROM (SELECT ${window} AS w FROM numbers(3000000))`),
    ...STATES,
    ...OTHERS
  ]
}
