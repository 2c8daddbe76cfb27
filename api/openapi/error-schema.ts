/** The body of every error answer (docs/contract/service.md 7). */
export const errorSchema = {
  $id: 'Error',
  type: 'object',
  required: ['type', 'code', 'detail', 'attr'],
  properties: {
    type: {
      type: 'string',
      enum: ['validation_error', 'authentication_error', 'invalid_request', 'throttled_error', 'server_error']
    },
    code: { type: 'string', description: 'What went wrong, for programs.' },
    detail: { type: 'string', description: 'What went wrong, for people.' },
    attr: { type: ['string', 'null'], description: 'The field at fault; nested ones joined by two underscores.' }
  }
} as const
