import { type FastifySchemaValidationError } from 'fastify'
import { HttpError } from '../../../platform/errors.ts'

/**
 * Turns the first finding of a route schema into the error of the contract: 400 with the field's name in `attr`.
 *
 * Nested fields are joined by `__` (`filters__events__0__id`), as the clients of the reference expect. Codes:
 * `required` for an absent field, `unknown_field` for one that the schema does not have, `invalid_input` for the rest.
 */
export function describeValidationError (error: FastifySchemaValidationError, part: string | undefined): HttpError {
  const path = error.instancePath.split('/').slice(1).map(unescapePointer)
  switch (error.keyword) {
    case 'required': {
      const field = String(error.params.missingProperty)
      return validationError('required', `${field}: This field is required.`, [...path, field])
    }
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const field = String(error.params.additionalProperty ?? error.params.unevaluatedProperty)
      return validationError('unknown_field', `${field}: This field is not known.`, [...path, field])
    }
    default: {
      const name = path.at(-1) ?? part ?? 'body'
      return validationError('invalid_input', `${name} ${describeRule(error)}.`, path.length > 0 ? path : [name])
    }
  }
}

function validationError (code: string, detail: string, path: string[]): HttpError {
  return new HttpError(400, 'validation_error', code, detail, { attr: path.join('__') })
}

const FORMATS: Record<string, string> = {
  'date-time': 'must be an ISO 8601 date or date-time', uuid: 'must be a UUID'
}

function describeRule ({ keyword, params, message }: FastifySchemaValidationError): string {
  if (keyword === 'format') return FORMATS[String(params.format)] ?? `must be of format ${String(params.format)}`
  if (keyword === 'type') return `must be of type ${[params.type].flat().join(' or ')}`
  if (keyword === 'enum') return `must be one of ${(params.allowedValues as unknown[]).map(String).join(', ')}`
  return message ?? 'is not valid'
}

function unescapePointer (segment: string): string {
  return segment.replaceAll('~1', '/').replaceAll('~0', '~')
}
