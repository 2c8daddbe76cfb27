/** Path parameters of one thing that has a UUID: what the id must look like, and its type for the route. */
export const uuidParams = {
  type: 'object',
  properties: {
    project_id: { type: 'string', description: 'Id of the project, or @current for the first one the key opens.' },
    id: { type: 'string', format: 'uuid' }
  }
} as const

export interface UuidParams {
  Params: { project_id: string, id: string }
}
