/** People who use the API by a session, and keys. */
import type { TestApi } from './create-test-api.ts'

export const PASSWORD = 'correct horse battery'

export interface Client { cookie: string, call: (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, body?: object) => Promise<{ status: number, body: any }> }

export async function send (
  api: TestApi, method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, { cookie, body, address }: { cookie?: string, body?: object, address?: string } = {}
): Promise<{ status: number, body: any, cookie: string | undefined, retryAfter: number }> {
  const response = await api.app.inject({
    method,
    url,
    headers: {
      'millrace-console': '1', 'sec-fetch-site': 'same-origin',
      ...cookie === undefined ? {} : { cookie }, ...address === undefined ? {} : { 'x-forwarded-for': address }
    },
    ...body === undefined ? {} : { payload: body }
  })
  const set = [response.headers['set-cookie']].flat().find((text) => text?.startsWith('millrace_session='))
  return { status: response.statusCode, body: response.body === '' ? undefined : JSON.parse(response.body), cookie: set?.split(';')[0], retryAfter: Number(response.headers['retry-after']) }
}

export async function invite (api: TestApi, email: string, roles: object[]): Promise<{ token: string, id: number }> {
  const { status, body } = await api.call('POST', '/api/invitations', { email, first_name: email.split('@')[0], roles })
  if (status !== 201) throw new Error(JSON.stringify(body))
  return { token: String(/#invitation=([\w-]{43})$/.exec(body.link)?.[1]), id: body.user.id }
}

export async function logIn (api: TestApi, body: object): Promise<Client> {
  const { status, cookie = '', body: answer } = await send(api, 'POST', '/console/session', { body })
  if (status !== 200) throw new Error(JSON.stringify(answer))
  return { cookie, call: async (method, url, body) => await send(api, method, url.replace(/^~/, `/api/projects/${api.projectId}`), { cookie, ...body === undefined ? {} : { body } }) }
}

export async function joinAs (api: TestApi, email: string, roles: object[]): Promise<Client & { id: number }> {
  const { token, id } = await invite(api, email, roles)
  return { ...await logIn(api, { invitation: token, password: PASSWORD }), id }
}

/** Uses a personal key. */
export async function callWith (
  api: TestApi, key: string, method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, body?: object
): Promise<{ status: number, body: any }> {
  await api.keys.refresh()
  const response = await api.app.inject({
    method, url: url.replace(/^~/, `/api/projects/${api.projectId}`), headers: { authorization: `Bearer ${key}` }, ...body === undefined ? {} : { payload: body }
  })
  return { status: response.statusCode, body: response.body === '' ? undefined : JSON.parse(response.body) }
}

export const everywhere = (role: string): object[] => [{ project_id: null, role }]
