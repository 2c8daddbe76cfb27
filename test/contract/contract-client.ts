import { type Stack } from '../start-stack.ts'
import { createOpenApiChecker, type OpenApiChecker, type OpenApiDocument } from './openapi-checker.ts'

export interface ContractAnswer {
  status: number
  headers: Headers
  // Answers are looked at by assertions, which is where their shape is checked.
  body: any
}

/** The part of tap's `t` that is needed to report. */
interface Assertions {
  equal (found: unknown, wanted: unknown, message: string): unknown
}

/** Speaks HTTP to the one origin of a running system; a path that begins with `~` is below project 1. */
export interface ContractClient {
  /** A request as the first user; the answer is compared with the OpenAPI document on the way. */
  call: (t: Assertions, method: string, path: string, body?: unknown, options?: CallOptions) => Promise<ContractAnswer>
  /**
   * A request without any key.
   *
   * @throws when the answer is not as the OpenAPI document says.
   */
  post: (path: string, body: unknown) => Promise<ContractAnswer>
  openapi: OpenApiChecker
}

/** What the walks through the contract work on: one running system, and a client that knows what was tried. */
export interface ContractSystem {
  stack: Stack
  client: ContractClient
}

export interface CallOptions {
  /** Default: the first user's; null sends none. */
  authorization?: string | null
}

export async function createContractClient (stack: Stack): Promise<ContractClient> {
  const document = await (await fetch(`${stack.url}/api/schema`)).json() as OpenApiDocument
  const openapi = createOpenApiChecker(document)

  async function send (
    method: string, path: string, body: unknown, headers: Record<string, string>
  ): Promise<ContractAnswer> {
    const response = await fetch(stack.url + path.replace(/^~/, '/api/projects/1'), {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
  }

  return {
    openapi,
    async call (t, method, path, body, { authorization = `Bearer ${stack.personalApiKey}` } = {}) {
      const answer = await send(method, path, body, authorization === null ? {} : { authorization })
      const url = path.replace(/^~/, '/api/projects/1')
      t.equal(openapi.findFault(method, url, answer), undefined, `${method} ${path} ${answer.status} as the document says`)
      return answer
    },
    async post (path, body) {
      const answer = await send('POST', path, body, {})
      const fault = openapi.findFault('POST', path, answer)
      if (fault !== undefined) throw new Error(`POST ${path} ${answer.status} is not as the document says: ${fault}`)
      return answer
    }
  }
}
