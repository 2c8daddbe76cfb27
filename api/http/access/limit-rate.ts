import rateLimit from '@fastify/rate-limit'
import { type FastifyInstance } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { HttpError } from '../../../platform/errors.ts'
import { accessOf } from './authenticate-personal-key.ts'

export interface LimitRateOptions {
  /** Requests of one personal key per minute; 0 is no limit. Each API process counts for itself. */
  maxPerMinute: number
}

/**
 * Bounds how often one personal key asks, so that a runaway script cannot take the API from everyone else. Answers
 * carry `x-ratelimit-limit`, `-remaining` and `-reset` (seconds); beyond the limit 429 with `retry-after`.
 */
export const limitRate = fastifyPlugin(async (app: FastifyInstance, options: LimitRateOptions) => {
  if (options.maxPerMinute === 0) return
  await app.register(rateLimit, {
    // After authentication, because the limit belongs to the key and not to an address.
    hook: 'preValidation',
    max: options.maxPerMinute,
    timeWindow: 60_000,
    keyGenerator: (request) => accessOf(request).keyId,
    errorResponseBuilder: (_, { ttl }) => new HttpError(429, 'throttled_error', 'throttled',
      `Request was throttled. Expected available in ${Math.ceil(ttl / 1000)} seconds.`)
  })
}, { name: 'limit-rate' })
