import { HttpError } from '../../platform/errors.ts'
import { WRITABLE_FIELDS } from './experiment-body.ts'

/** 400 about one field of an experiment. */
export function invalidExperiment (attr: string, detail: string, code = 'invalid_input'): HttpError {
  return new HttpError(400, 'validation_error', code, detail, { attr })
}

/** @throws {HttpError} naming all fields of a PATCH that cannot be written. */
export function refuseUnknownFields (body: object): void {
  const unknown = Object.keys(body).filter((field) => !WRITABLE_FIELDS.includes(field))
  if (unknown.length === 0) return
  throw invalidExperiment(unknown[0] ?? '', `Can't update keys: ${unknown.sort().join(', ')} on Experiment`, 'unknown_field')
}

/** @throws {HttpError} when the metric's filters hold properties for all events at once. */
export function refuseGlobalProperties (filters: Record<string, unknown> | undefined): void {
  const properties = filters?.['properties']
  const empty = properties === undefined || properties === null || Object.keys(properties).length === 0
  if (!empty) throw invalidExperiment('filters', 'Experiments do not support global filter properties')
}

/** @throws {HttpError} when the end is not after the start. */
export function refuseEndBeforeStart (start: Date | null, end: Date | null): void {
  if (start !== null && end !== null && end <= start) throw invalidExperiment('end_date', 'End date must be after start date')
}
