/**
 * The capture endpoints (docs/contract/service.md 2.6, 4.4, 4.5), which another tier serves at the same origin:
 * described by hand, so that one document tells of everything.
 */
export function describeCapturePaths (): Record<string, object> {
  return {
    '/capture': describePath('Capture an event', { $ref: '#/components/schemas/CapturedEvent' }),
    '/batch': describePath('Capture a batch of events', {
      type: 'object',
      required: ['api_key', 'batch'],
      properties: {
        api_key: API_KEY,
        batch: { type: 'array', items: { $ref: '#/components/schemas/CapturedEvent' } },
        sent_at: { type: 'string', description: 'Clock of the sender, to correct its timestamps by.' },
        historical_migration: { type: 'boolean', description: 'Take a partition of their own, behind live events.' }
      }
    })
  }
}

const API_KEY = { type: 'string' as const, description: 'Project API key. A personal API key needs the scope event:write, and project_id beside it.' }
const PERSON_PROPERTIES = { type: 'object' as const, additionalProperties: true }

/** An event as SDKs send it. */
export const capturedEventSchema = {
  type: 'object' as const,
  description: 'An event without a name, or without a distinct_id at top level or in properties, is dropped; the answer is 200 all the same.',
  required: ['event'],
  properties: {
    api_key: { ...API_KEY, description: `${API_KEY.description} In a batch, beside it.` },
    event: { type: 'string' as const, description: 'Name of the event.' },
    distinct_id: { type: 'string' as const, description: 'Who did it; here or in properties.' },
    properties: { type: 'object' as const, additionalProperties: true },
    timestamp: { type: 'string' as const, description: 'When it happened, ISO 8601; default: when it is received.' },
    uuid: { type: 'string' as const, format: 'uuid', description: 'Identity of the event: sent twice, it counts once.' },
    $set: PERSON_PROPERTIES,
    $set_once: PERSON_PROPERTIES
  }
}

const ERROR = { description: 'What was wrong.', content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } }

function describePath (summary: string, body: object): object {
  return {
    post: {
      tags: ['capture'],
      summary,
      description: 'Kept when answered with 200: neither lost nor counted twice. Bodies may be compressed (gzip, lz64, base64). ' +
        'Less than 20 MB on the wire.',
      requestBody: { required: true, content: { 'application/json': { schema: body } } },
      responses: {
        200: {
          description: 'Kept.',
          content: {
            'application/json': {
              schema: { type: 'object', required: ['status'], additionalProperties: false, properties: { status: { type: 'integer', const: 1 } } }
            }
          }
        },
        '4XX': ERROR,
        '5XX': ERROR
      }
    }
  }
}
