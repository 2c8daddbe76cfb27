import { type FastifyInstance } from 'fastify'
import { type Metrics } from '../../platform/metrics.ts'

/** In seconds. Flag clients give up after 3 s; pages are expected in tens of milliseconds. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3, 10]

const STATUS_CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const

/** Measures every request by route (never by path: ids would make a series each), method and status. */
export function observeRequests (app: FastifyInstance, metrics: Metrics): void {
  const duration = metrics.histogram('request_duration_seconds',
    'Time from the head of a request to the end of its answer.', BUCKETS, ['method', 'route', 'status'])
  // The series of the histogram begin with a route's first answer, so an alert on it would miss the first errors.
  const responses = metrics.counter('responses_total', 'Answers by class of their status, without those about health and metrics.', { status: STATUS_CLASSES })
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'unknown'
    duration.observe({ method: request.method, route, status: reply.statusCode }, reply.elapsedTime / 1000)
    // A probe that is told of a degraded process is no failed request.
    if (!route.startsWith('/_')) responses.inc({ status: `${Math.floor(reply.statusCode / 100)}xx` })
  })
}
