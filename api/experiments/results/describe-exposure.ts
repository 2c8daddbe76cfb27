/** Which events expose people to a variant, as SQL; what people wrote stands in it as quoted text only. */
import { quoteString } from 'chdb-server/sql-lexer'
import { conditionSql, memberSql } from '../../../engines/questions/question-sql.ts'
import type { AnalysisSettings } from '../analysis-settings.ts'
import type { Exposure } from './query-metric.ts'

const CALLED = "event = '$feature_flag_called' AND feature_flag = {flag:String}"

type Exposing = Pick<Exposure, 'where' | 'variant'>

/** The call of the flag, or another event with the variant in its property `$feature/<key>`, as SDKs send it. */
export function describeExposure (exposure: AnalysisSettings['exposure'], flagKey: string, projectId: number): Exposing {
  if (exposure === null) return { where: CALLED, variant: 'feature_flag_response' }
  const { event, where } = exposure
  const isCall = event === '$feature_flag_called'
  const property = quoteString(`$feature/${flagKey}`)
  return {
    where: [isCall ? CALLED : `event = ${quoteString(event)}`, ...where.map((each) => each.type === 'cohort' ? memberSql(each, projectId, { person: 'person_id' }) : conditionSql(each))].join(' AND '),
    variant: isCall ? 'feature_flag_response' : `if(JSONType(properties, ${property}) = 'String', JSONExtractString(properties, ${property}), JSONExtractRaw(properties, ${property}))`
  }
}
