import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { parseAllDocuments } from 'yaml'

export const ROOT = path.join(import.meta.dirname, '..', '..')

/** A container of Kubernetes or a service of compose. */
export interface Container {
  name: string
  image: string
  command?: string[]
  args?: string[]
  ports?: { name: string, containerPort: number }[]
  env?: { name: string, value?: string }[]
  envFrom?: { secretRef?: { name: string }, configMapRef?: { name: string } }[]
  lifecycle?: { preStop: { sleep?: { seconds: number }, exec?: { command: string[] } } }
  volumeMounts?: { name: string, mountPath: string, subPath?: string, readOnly?: boolean }[]
  [probe: `${string}Probe`]: { httpGet?: { path: string, port: string } } | undefined
}

export interface PodSpec {
  terminationGracePeriodSeconds?: number
  initContainers?: Container[]
  containers: Container[]
  volumes?: { name: string, configMap?: { name: string } }[]
  affinity?: { podAntiAffinity?: Record<string, unknown> }
}

export interface Selector {
  matchLabels?: Record<string, string>
  matchExpressions?: { key: string, operator: string, values?: string[] }[]
}

/** An object of Kubernetes, with what the tests look at. */
export interface Resource {
  kind: string
  metadata: { name: string, labels?: Record<string, string> }
  data?: Record<string, string>
  stringData?: Record<string, string>
  spec?: {
    replicas?: number
    selector?: Record<string, string>
    ports?: { name: string, port: number, targetPort?: string }[]
    template?: { metadata: { labels: Record<string, string> }, spec: PodSpec }
    volumeClaimTemplates?: { metadata: { name: string } }[]
    podSelector?: Selector
    ingress?: { from?: { podSelector?: Selector, namespaceSelector?: Selector }[], ports?: { port: number }[] }[]
  } & Partial<PodSpec>
}

export interface ComposeService {
  image: string
  command?: string[]
  environment?: Record<string, string | number>
  ports?: string[]
  volumes?: string[]
  stop_grace_period?: string
  logging?: unknown
  restart: string
  profiles?: string[]
  healthcheck?: { test: string[] }
  depends_on?: Record<string, { condition: string }>
}

/** @throws on an error or a warning of the parser. */
export async function readYaml (file: string): Promise<unknown[]> {
  const documents = parseAllDocuments(await readText(file), { merge: true })
  return [...documents].map((document) => {
    const [error] = [...document.errors, ...document.warnings]
    if (error !== undefined) throw error
    return document.toJS() as unknown
  })
}

export async function readText (file: string): Promise<string> {
  return await readFile(path.join(ROOT, file), 'utf8')
}

/** Everything in `deploy/kubernetes/`. */
export async function readResources (): Promise<Resource[]> {
  const files = (await readdir(path.join(ROOT, 'deploy', 'kubernetes'))).filter((file) => file.endsWith('.yaml'))
  return (await Promise.all(files.map(async (file) => await readYaml(`deploy/kubernetes/${file}`)))).flat() as Resource[]
}

/** The compose files of `deploy/`. */
export const COMPOSE_FILES = ['compose.yaml', 'compose.all-in-one.yaml'] as const

export async function readCompose (
  file: typeof COMPOSE_FILES[number] = 'compose.yaml'
): Promise<{ services: Record<string, ComposeService> }> {
  const [compose] = await readYaml(`deploy/${file}`) as [{ services: Record<string, ComposeService> }]
  return compose
}

/** Each workload with its pods: the value of their label `app`. */
export function listPods (resources: readonly Resource[]): { app: string, resource: Resource, pod: PodSpec }[] {
  return resources.flatMap((resource) => {
    if (resource.kind === 'Pod') return [{ app: resource.metadata.labels!.app!, resource, pod: resource.spec as PodSpec }]
    const template = resource.spec?.template
    return template === undefined ? [] : [{ app: template.metadata.labels.app!, resource, pod: template.spec }]
  })
}

/** What a container finds in its environment. */
export function readEnvironment (
  { env = [], envFrom = [] }: Container, resources: readonly Resource[]
): Record<string, string> {
  const find = (kind: string, name: string): Resource => {
    const found = resources.find((each) => each.kind === kind && each.metadata.name === name)
    if (found === undefined) throw new Error(`there is no ${kind} ${name}`)
    return found
  }
  const sources = envFrom.map(({ secretRef, configMapRef }) =>
    secretRef === undefined ? find('ConfigMap', configMapRef!.name).data! : find('Secret', secretRef.name).stringData!)
  const own = Object.fromEntries(env.map(({ name, value = '' }) => [name, value]))
  const names = [...sources, own].flatMap((each) => Object.keys(each))
  const twice = names.filter((name, index) => names.indexOf(name) !== index)
  if (twice.length > 0) throw new Error(`variables given twice: ${twice.join(', ')}`)
  return Object.assign({}, ...sources, own) as Record<string, string>
}
